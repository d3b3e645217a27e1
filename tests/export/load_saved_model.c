// Loads a SavedModel as TF Serving does, without Python, and asks it.
//
//     load_saved_model EXPORT_DIR -l LIBRARY... -i INPUT... -o OUTPUT...
//
// A LIBRARY holds operations that TensorFlow lacks and TF Serving has. An INPUT is a string tensor of the graph, an OUTPUT a tensor of it,
// both by names like `serving_default_text_a:0`. The inputs of one request
// after the other are read from standard input until it ends: of each input a
// line with its shape, then its strings as netstrings, that is the number of
// bytes, a colon, the bytes, a comma. Two texts of five bytes and of none:
//
//     2
//     5:hello,0:,
//
// Each request is answered by a line of JSON on standard output, an object of
// `shape` and `values` (the flat list) for each output. The characters of its
// strings are bytes, U+0000 to U+00FF: they need not be UTF-8. A request that
// TensorFlow refuses is answered by an object of `error` alone, which begins
// with the name of TensorFlow's code.
//
// Any other error ends the program with 1, and is the last that it writes to
// standard error.

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/c/c_api.h"
#include "tensorflow/c/tf_tstring.h"

enum { kMaxTensors = 16, kMaxRank = 8, kMaxName = 256 };

typedef struct {
  const char* names[kMaxTensors];
  TF_Output tensors[kMaxTensors];
  int num;
} TensorList;

typedef struct {
  TF_Graph* graph;
  TF_Session* session;
  TensorList inputs, outputs;
} Model;

static const char* const kCodes[] = {
    "OK",           "CANCELLED",           "UNKNOWN",
    "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
    "ALREADY_EXISTS",   "PERMISSION_DENIED", "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION", "ABORTED",      "OUT_OF_RANGE",
    "UNIMPLEMENTED", "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS",    "UNAUTHENTICATED"};

static _Noreturn void Fail(const char* what, const char* which) {
  fflush(stdout);
  fprintf(stderr, "%s: %s\n", what, which);
  exit(1);
}

static const char* CodeName(const TF_Status* status) {
  const size_t code = (size_t)TF_GetCode(status);
  return code < sizeof kCodes / sizeof *kCodes ? kCodes[code] : "UNKNOWN";
}

static void Check(const TF_Status* status) {
  if (TF_GetCode(status) == TF_OK) return;
  Fail(CodeName(status), TF_Message(status));
}

static void AddName(TensorList* list, const char* name) {
  if (list->num == kMaxTensors) Fail("too many tensors", name);
  list->names[list->num++] = name;
}

static TF_Output FindTensor(TF_Graph* graph, const char* name) {
  char operation[kMaxName];
  int index;
  // kMaxName - 1 characters that are not a colon.
  if (sscanf(name, "%255[^:]:%d", operation, &index) != 2) {
    Fail("not the name of a tensor, like x:0", name);
  }
  TF_Output tensor = {TF_GraphOperationByName(graph, operation), index};
  if (tensor.oper == NULL || index < 0 ||
      index >= TF_OperationNumOutputs(tensor.oper)) {
    Fail("no such tensor in the graph", name);
  }
  return tensor;
}

static void FindTensors(TF_Graph* graph, TensorList* list) {
  for (int i = 0; i < list->num; ++i) {
    list->tensors[i] = FindTensor(graph, list->names[i]);
  }
}

static void CheckHoldsStrings(const TensorList* inputs) {
  for (int i = 0; i < inputs->num; ++i) {
    if (TF_OperationOutputType(inputs->tensors[i]) != TF_STRING) {
      Fail("an input must hold strings", inputs->names[i]);
    }
  }
}

static void LoadModel(Model* model, const char* export_dir) {
  const char* const tags[] = {"serve"};
  TF_Status* status = TF_NewStatus();
  TF_SessionOptions* options = TF_NewSessionOptions();
  model->graph = TF_NewGraph();
  model->session = TF_LoadSessionFromSavedModel(
      options, NULL, export_dir, tags, 1, model->graph, NULL, status);
  Check(status);
  FindTensors(model->graph, &model->inputs);
  FindTensors(model->graph, &model->outputs);
  CheckHoldsStrings(&model->inputs);
  TF_DeleteSessionOptions(options);
  TF_DeleteStatus(status);
}

static void LoadLibrary(const char* path) {
  TF_Status* status = TF_NewStatus();
  TF_LoadLibrary(path, status);
  Check(status);
  TF_DeleteStatus(status);
}

static void DeleteModel(Model* model) {
  TF_Status* status = TF_NewStatus();
  TF_CloseSession(model->session, status);
  Check(status);
  TF_DeleteSession(model->session, status);
  Check(status);
  TF_DeleteGraph(model->graph);
  TF_DeleteStatus(status);
}

// Reads a line of sizes; returns the rank, or -1 where the input has ended.
static int ReadShape(int64_t* shape) {
  char line[kMaxName];
  if (fgets(line, sizeof line, stdin) == NULL) return -1;
  if (strchr(line, '\n') == NULL) Fail("the line of a shape is cut", line);
  int rank = 0;
  char* rest = line;
  for (char* end; rest[strspn(rest, " \n")] != '\0'; rest = end) {
    const int64_t size = strtoll(rest, &end, 10);
    if (end == rest || size < 0 || rank == kMaxRank) {
      Fail("not a shape", line);
    }
    shape[rank++] = size;
  }
  return rank;
}

static void ReadString(TF_TString* string) {
  size_t size;
  if (scanf("%zu", &size) != 1 || getchar() != ':') {
    Fail("not a netstring", "its size is missing");
  }
  char* bytes = malloc(size + 1);
  if (bytes == NULL) Fail("no memory", "for a string");
  if (fread(bytes, 1, size, stdin) != size || getchar() != ',') {
    Fail("not a netstring", "it is cut, or has another size than it says");
  }
  TF_StringInit(string);
  TF_StringCopy(string, bytes, size);
  free(bytes);
}

// Returns NULL where the input has ended.
static TF_Tensor* ReadTensor(void) {
  int64_t shape[kMaxRank];
  const int rank = ReadShape(shape);
  if (rank < 0) return NULL;
  size_t num_strings = 1;
  for (int i = 0; i < rank; ++i) num_strings *= (size_t)shape[i];
  TF_Tensor* tensor = TF_AllocateTensor(TF_STRING, shape, rank,
                                        num_strings * sizeof(TF_TString));
  if (tensor == NULL) Fail("no memory", "for a tensor");
  TF_TString* strings = TF_TensorData(tensor);
  for (size_t i = 0; i < num_strings; ++i) ReadString(&strings[i]);
  if (getchar() != '\n') Fail("not a request", "no line ends after a tensor");
  return tensor;
}

static void PrintBytes(const char* bytes, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    const unsigned char byte = (unsigned char)bytes[i];
    if (byte < ' ' || byte > '~' || byte == '"' || byte == '\\') {
      printf("\\u%04x", byte);
    } else {
      putchar(byte);
    }
  }
}

static void PrintString(const TF_TString* string) {
  putchar('"');
  PrintBytes(TF_StringGetDataPointer(string), TF_StringGetSize(string));
  putchar('"');
}

static void PrintValue(const TF_Tensor* tensor, int64_t index) {
  const void* data = TF_TensorData(tensor);
  switch (TF_TensorType(tensor)) {
    case TF_FLOAT:
      // Nine digits bring every float back.
      printf("%.9g", ((const float*)data)[index]);
      break;
    case TF_INT32:
      printf("%" PRId32, ((const int32_t*)data)[index]);
      break;
    case TF_INT64:
      printf("%" PRId64, ((const int64_t*)data)[index]);
      break;
    case TF_STRING:
      PrintString(&((const TF_TString*)data)[index]);
      break;
    default:
      Fail("an output must hold float, int32, int64 or string", "it does not");
  }
}

static void PrintTensor(const TF_Tensor* tensor) {
  fputs("{\"shape\": [", stdout);
  for (int i = 0; i < TF_NumDims(tensor); ++i) {
    printf("%s%" PRId64, i ? ", " : "", TF_Dim(tensor, i));
  }
  fputs("], \"values\": [", stdout);
  for (int64_t i = 0; i < TF_TensorElementCount(tensor); ++i) {
    if (i) fputs(", ", stdout);
    PrintValue(tensor, i);
  }
  fputs("]}", stdout);
}

static void PrintError(const TF_Status* status) {
  const char* message = TF_Message(status);
  printf("{\"error\": \"%s: ", CodeName(status));
  PrintBytes(message, strlen(message));
  puts("\"}");
}

static void PrintOutputs(const TensorList* wanted, TF_Tensor* const* outputs) {
  for (int i = 0; i < wanted->num; ++i) {
    printf("%s\"%s\": ", i ? ", " : "{", wanted->names[i]);
    PrintTensor(outputs[i]);
    TF_DeleteTensor(outputs[i]);
  }
  puts("}");
}

static void Answer(const Model* model, TF_Tensor* const* inputs) {
  const TensorList* wanted = &model->outputs;
  TF_Tensor* outputs[kMaxTensors];
  TF_Status* status = TF_NewStatus();
  TF_SessionRun(model->session, NULL, model->inputs.tensors, inputs,
                model->inputs.num, wanted->tensors, outputs, wanted->num, NULL,
                0, NULL, status);
  if (TF_GetCode(status) == TF_OK) {
    PrintOutputs(wanted, outputs);
  } else {
    PrintError(status);
  }
  TF_DeleteStatus(status);
}

// Reads a request and answers it; returns false where the input has ended.
static bool Serve(const Model* model) {
  TF_Tensor* inputs[kMaxTensors];
  for (int i = 0; i < model->inputs.num; ++i) {
    inputs[i] = ReadTensor();
    if (inputs[i] == NULL && i == 0) return false;
    if (inputs[i] == NULL) Fail("a request is cut", model->inputs.names[i]);
  }
  Answer(model, inputs);
  for (int i = 0; i < model->inputs.num; ++i) TF_DeleteTensor(inputs[i]);
  return true;
}

int main(int argc, char** argv) {
  const char* const usage =
      "load_saved_model EXPORT_DIR -l LIBRARY... -i INPUT... -o OUTPUT...";
  Model model = {0};
  if (argc < 2 || argc % 2 != 0) Fail("usage", usage);
  for (int i = 2; i < argc; i += 2) {
    if (strcmp(argv[i], "-l") == 0) {
      LoadLibrary(argv[i + 1]);
    } else if (strcmp(argv[i], "-i") == 0) {
      AddName(&model.inputs, argv[i + 1]);
    } else if (strcmp(argv[i], "-o") == 0) {
      AddName(&model.outputs, argv[i + 1]);
    } else {
      Fail("usage", usage);
    }
  }
  if (model.inputs.num == 0 || model.outputs.num == 0) Fail("usage", usage);
  LoadModel(&model, argv[1]);
  while (Serve(&model)) continue;
  DeleteModel(&model);
  return 0;
}
