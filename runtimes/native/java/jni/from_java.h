// Values of Java as edgespec.h takes them. A Java exception becomes Pending, and is thrown to Java
// by guarded().
#pragma once

#include <edgespec.h>
#include <jni.h>

#include <cstdint>
#include <string>
#include <vector>

namespace edgespec_jni {

// A Java exception has been thrown in this thread.
struct Pending {};

// A JNI call that ended with a Java exception, if one did, ends the function here.
inline void check(JNIEnv* java) {
  if (java->ExceptionCheck()) throw Pending();
}

// The functions below take null as an array with nothing in it.

inline std::string bytes_of(JNIEnv* java, jbyteArray array) {
  if (array == nullptr) return {};
  std::string bytes(java->GetArrayLength(array), '\0');
  java->GetByteArrayRegion(array, 0, bytes.size(), reinterpret_cast<jbyte*>(bytes.data()));
  check(java);
  return bytes;
}

inline std::vector<std::string> texts_of(JNIEnv* java, jobjectArray arrays) {
  if (arrays == nullptr) return {};
  std::vector<std::string> texts(java->GetArrayLength(arrays));
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto array = static_cast<jbyteArray>(java->GetObjectArrayElement(arrays, i));
    texts[i] = bytes_of(java, array);
    java->DeleteLocalRef(array);
  }
  return texts;
}

inline std::vector<int64_t> longs_of(JNIEnv* java, jlongArray array) {
  if (array == nullptr) return {};
  std::vector<jlong> longs(java->GetArrayLength(array));
  java->GetLongArrayRegion(array, 0, longs.size(), longs.data());
  check(java);
  return {longs.begin(), longs.end()};
}

inline std::vector<float> floats_of(JNIEnv* java, jfloatArray array) {
  if (array == nullptr) return {};
  std::vector<float> floats(java->GetArrayLength(array));
  java->GetFloatArrayRegion(array, 0, floats.size(), floats.data());
  check(java);
  return floats;
}

inline std::vector<double> doubles_of(JNIEnv* java, jdoubleArray array) {
  if (array == nullptr) return {};
  std::vector<double> doubles(java->GetArrayLength(array));
  java->GetDoubleArrayRegion(array, 0, doubles.size(), doubles.data());
  check(java);
  return doubles;
}

// An object's fields, and its methods without arguments.
class Object {
 public:
  Object(JNIEnv* java, jobject object)
      : java_(java), object_(object), class_(java->GetObjectClass(object)) {}

  double real(const char* name) const { return java_->GetDoubleField(object_, field(name, "D")); }
  int64_t whole(const char* name) const { return java_->GetLongField(object_, field(name, "J")); }
  int32_t number(const char* name) const { return java_->GetIntField(object_, field(name, "I")); }
  int32_t truth(const char* name) const {
    return java_->GetBooleanField(object_, field(name, "Z")) == JNI_TRUE ? 1 : 0;
  }

  int32_t asked_number(const char* name) const {
    return checked(java_->CallIntMethod(object_, method(name, "()I")));
  }
  int64_t asked_whole(const char* name) const {
    return checked(java_->CallLongMethod(object_, method(name, "()J")));
  }
  int32_t asked_truth(const char* name) const {
    return checked(java_->CallBooleanMethod(object_, method(name, "()Z"))) == JNI_TRUE ? 1 : 0;
  }
  // An array, or null.
  template <typename Array>
  Array asked(const char* name, const char* signature) const {
    return static_cast<Array>(checked(java_->CallObjectMethod(object_, method(name, signature))));
  }

 private:
  jfieldID field(const char* name, const char* type) const {
    return checked(java_->GetFieldID(class_, name, type));
  }
  jmethodID method(const char* name, const char* signature) const {
    return checked(java_->GetMethodID(class_, name, signature));
  }
  template <typename Value>
  Value checked(Value value) const {
    check(java_);
    return value;
  }

  JNIEnv* java_;
  jobject object_;
  jclass class_;
};

}  // namespace edgespec_jni
