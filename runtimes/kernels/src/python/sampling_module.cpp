// The Python module `edgespec_kernels._sampling`: the chosen target's kernels/sampling.h for arrays
// with the buffer protocol. With ctypes, a call would take longer than the computation.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstring>
#include <string>
#include <vector>

#include "dispatch/target.h"
#include "kernels/sampling.h"

namespace {

const edgespec::SamplingTable* kernels = nullptr;  // of the chosen target

// A contiguous buffer of numbers of type T; `held` is false, with a Python error set, if it is not.
template <typename T>
class Buffer {
 public:
  Buffer(PyObject* object, const char* formats, int flags = PyBUF_SIMPLE) {
    if (PyObject_GetBuffer(object, &view_, flags | PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) != 0) return;
    held = std::strlen(view_.format) == 1 && std::strchr(formats, *view_.format) &&
           view_.itemsize == sizeof(T);
    if (held) return;
    PyErr_Format(PyExc_TypeError, "the array's format is '%s'; it must be one of '%s'",
                 view_.format, formats);
    PyBuffer_Release(&view_);
  }
  ~Buffer() {
    if (held) PyBuffer_Release(&view_);
  }
  Buffer(const Buffer&) = delete;

  T* data() const { return static_cast<T*>(view_.buf); }
  int64_t count() const { return view_.len / static_cast<int64_t>(sizeof(T)); }

  bool held = false;

 private:
  Py_buffer view_;
};

struct Floats : Buffer<float> {
  explicit Floats(PyObject* object, int flags = PyBUF_SIMPLE) : Buffer(object, "f", flags) {}
};

PyObject* wrong_call() {
  if (!PyErr_Occurred())
    PyErr_SetString(PyExc_ValueError, "array lengths differ, or an array is empty");
  return nullptr;
}

PyObject* largest(PyObject*, PyObject* row) {
  const Floats x(row);
  if (!x.held || !x.count()) return wrong_call();
  return PyLong_FromLongLong(kernels->largest(x.data(), x.count()));
}

PyObject* weigh(PyObject*, PyObject* arguments) {
  PyObject *row, *out;
  float highest, inverse_temperature;
  if (!PyArg_ParseTuple(arguments, "OffO", &row, &highest, &inverse_temperature, &out))
    return nullptr;
  const Floats x(row), weights(out, PyBUF_WRITABLE);
  if (!x.held || !weights.held || weights.count() != x.count()) return wrong_call();
  return PyFloat_FromDouble(
      kernels->weigh(x.data(), x.count(), highest, inverse_temperature, weights.data()));
}

PyObject* nucleus(PyObject*, PyObject* arguments) {
  PyObject *row, *where, *out;
  float highest, inverse_temperature;
  double share;
  if (!PyArg_ParseTuple(arguments, "OffdOO", &row, &highest, &inverse_temperature, &share, &where,
                        &out)) {
    return nullptr;
  }
  const Floats x(row), weights(out, PyBUF_WRITABLE);
  const Buffer<int64_t> indices(where, "lq", PyBUF_WRITABLE);
  if (!x.held || !weights.held || !indices.held || !x.count() || weights.count() != x.count() ||
      indices.count() != x.count()) {
    return wrong_call();
  }
  return PyLong_FromLongLong(kernels->nucleus(x.data(), x.count(), highest, inverse_temperature,
                                              share, indices.data(), weights.data()));
}

PyObject* draw(PyObject*, PyObject* arguments) {
  PyObject* row;
  double uniform;
  if (!PyArg_ParseTuple(arguments, "Od", &row, &uniform)) return nullptr;
  const Floats weights(row);
  if (!weights.held || !weights.count()) return wrong_call();
  return PyLong_FromLongLong(kernels->draw(weights.data(), weights.count(), uniform));
}

PyObject* excess(PyObject*, PyObject* arguments) {
  PyObject *all, *some, *where, *out;
  float factor;
  if (!PyArg_ParseTuple(arguments, "OfOOO", &all, &factor, &some, &where, &out)) return nullptr;
  const Floats p(all), q(some), left(out, PyBUF_WRITABLE);
  const Buffer<int64_t> indices(where, "lq");
  if (!p.held || !q.held || !left.held || !indices.held || left.count() != p.count() ||
      indices.count() != q.count()) {
    return wrong_call();
  }
  kernels->excess(p.data(), p.count(), factor, q.data(), indices.data(), q.count(), left.data());
  Py_RETURN_NONE;
}

PyObject* race(PyObject*, PyObject* arguments) {
  PyObject *ids, *row;
  unsigned int a, b, c, d;
  double reach;
  if (!PyArg_ParseTuple(arguments, "OO(IIII)d", &ids, &row, &a, &b, &c, &d, &reach)) return nullptr;
  const Buffer<int64_t> tokens(ids, "lq");
  const Floats weights(row);
  if (!tokens.held || !weights.held || !tokens.count() || tokens.count() != weights.count())
    return wrong_call();
  const std::vector<edgespec::Arrival>& found =
      kernels->race(tokens.data(), weights.data(), tokens.count(), {a, b, c, d}, reach);
  PyObject* list = PyList_New(static_cast<Py_ssize_t>(found.size()));
  for (size_t i = 0; list && i < found.size(); ++i) {
    PyObject* pair = Py_BuildValue("Ld", static_cast<long long>(found[i].token), found[i].speed);
    if (!pair || PyList_SetItem(list, static_cast<Py_ssize_t>(i), pair) != 0) Py_CLEAR(list);
  }
  return list;
}

PyMethodDef methods[] = {
    {"largest", largest, METH_O, "largest(row): the index of the maximum"},
    {"weigh", weigh, METH_VARARGS, "weigh(row, highest, inverse_temperature, out): the sum of out"},
    {"nucleus", nucleus, METH_VARARGS,
     "nucleus(row, highest, inverse_temperature, share, indices, weights): the set's size"},
    {"draw", draw, METH_VARARGS, "draw(weights, uniform): an index"},
    {"excess", excess, METH_VARARGS, "excess(p, factor, q, indices, out)"},
    {"race", race, METH_VARARGS, "race(tokens, weights, key, reach): (token, speed), best first"},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "edgespec_kernels._sampling", nullptr, 0, methods, {}, {}, {}, {}};

}  // namespace

// NOLINTNEXTLINE(bugprone-reserved-identifier): Python looks for this name.
PyMODINIT_FUNC PyInit__sampling() {
  std::string problem;
  void* table = edgespec::chosen_function("edgespec_sampling", problem);
  if (table == nullptr) return PyErr_SetString(PyExc_ImportError, problem.c_str()), nullptr;
  kernels = reinterpret_cast<const edgespec::SamplingTable* (*)()>(table)();
  return PyModule_Create(&module);
}
