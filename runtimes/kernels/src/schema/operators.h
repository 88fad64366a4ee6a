// The operators' table as types. `schema::Int8MatMul::in::x` is the input x of the operator
// Int8MatMul: its index, its name and its shape. What an operator lacks is no member:
// `requires { Schema::in::post_norm; }` asks for an input.
//
// The rows are in operators.inc. TENSOR has a tag (tensors of one name may differ in type or
// shape), the name and the sizes; PART what some operators have together: inputs, outputs,
// attributes; OPERATOR the class template that computes it (register.cpp), its name and its parts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include "schema/tensor_spec.h"

namespace edgespec {

// A size in a shape.
enum class Dim : int8_t {
  one,
#define SIZE(symbol) symbol,
#include "schema/operators.inc"
};

constexpr std::array kDimNames{
    "1",
#define SIZE(symbol) #symbol,
#include "schema/operators.inc"
};
constexpr size_t kDims = kDimNames.size();

namespace schema {

constexpr const char* kDomain = "edgespec";

template <typename... Entries>
struct List {};

template <typename... Lists>
struct JoinedLists {
  using type = List<>;
};
template <typename... First, typename... Second, typename... Lists>
struct JoinedLists<List<First...>, List<Second...>, Lists...>
    : JoinedLists<List<First..., Second...>, Lists...> {};
template <typename... Entries>
struct JoinedLists<List<Entries...>> {
  using type = List<Entries...>;
};
template <typename... Lists>
using Joined = typename JoinedLists<Lists...>::type;

// The tensors of a list as members, each with its index in the list.
template <typename List, typename Indices>
struct Numbered;
template <typename... Tags, size_t... index>
struct Numbered<List<Tags...>, std::index_sequence<index...>> : Tags::template At<index>... {
  static constexpr std::array types{type_of<typename Tags::Number>...};
};
template <typename List>
struct TensorsOf;
template <typename... Tags>
struct TensorsOf<List<Tags...>> : Numbered<List<Tags...>, std::index_sequence_for<Tags...>> {};

// The attributes of a list as members.
template <typename List>
struct AttributesOf;
template <typename... Tags>
struct AttributesOf<List<Tags...>> : Tags::Member... {};

// The entries of a list that products are made of, their weights and the steps before them; or
// those that are left.
template <bool kOfProducts, typename List>
struct Only;
template <bool kOfProducts, typename... Tags>
struct Only<kOfProducts, List<Tags...>> {
  using type = Joined<std::conditional_t<Tags::kOfProducts == kOfProducts, List<Tags>, List<>>...>;
  // Of each such entry, its index in the list.
  static constexpr auto indices = [] {
    std::array<uint8_t, (0 + ... + (Tags::kOfProducts == kOfProducts))> kept{};
    size_t count = 0, index = 0;
    ((Tags::kOfProducts == kOfProducts ? void(kept[count++] = uint8_t(index)) : void(), ++index),
     ...);
    return kept;
  }();
};

template <typename In, typename Out, typename Attributes>
struct Members {
  struct in : TensorsOf<In> {};
  struct out : TensorsOf<Out> {};
  struct attr : AttributesOf<Attributes> {};
};

template <typename... Parts>
struct Operator : Members<Joined<typename Parts::in...>, Joined<typename Parts::out...>,
                          Joined<typename Parts::attr...>> {
  // Some of its inputs, numbered without the others, and of its attributes: operators have these in
  // common, and what reads no more than them is compiled once. `indices` has the inputs' own.
  template <bool kOfProducts>
  struct Share {
    using Inputs = Only<kOfProducts, Joined<typename Parts::in...>>;
    using Attributes = Only<kOfProducts, Joined<typename Parts::attr...>>;
    static constexpr auto& indices = Inputs::indices;
    using Outputs = std::conditional_t<kOfProducts, List<>, Joined<typename Parts::out...>>;
    using Schema = Members<typename Inputs::type, Outputs, typename Attributes::type>;
  };
  using OfProducts = Share<true>;
  using Frame = Share<false>;
};

namespace tensors {
#define TENSOR(tag, kind, type, name, ...)                            \
  struct tag {                                                        \
    using Number = type;                                              \
    static constexpr bool kOfProducts = kIsConstant<kind<type>>;      \
    template <size_t index>                                           \
    struct At {                                                       \
      static constexpr kind<type> name = [] {                         \
        using enum Dim;                                               \
        return kind<type>{{index, #name __VA_OPT__(, ) __VA_ARGS__}}; \
      }();                                                            \
    };                                                                \
  };
#include "schema/operators.inc"
}  // namespace tensors

namespace attributes {
// Whether an attribute is of the norm before a product.
constexpr bool is_of_norm(std::string_view name) { return name == "epsilon" || name == "step"; }

#define ATTRIBUTE(name, type)                              \
  struct name {                                            \
    static constexpr bool kOfProducts = is_of_norm(#name); \
    struct Member {                                        \
      static constexpr Attribute<type> name{#name};        \
    };                                                     \
  };
#include "schema/operators.inc"
}  // namespace attributes

#define LIST(...) List<__VA_ARGS__>
#define PART(name, inputs, outputs, read) \
  namespace tensors {                     \
  struct name {                           \
    using in = LIST inputs;               \
    using out = LIST outputs;             \
  };                                      \
  }                                       \
  namespace attributes {                  \
  using name##List = LIST read;           \
  }                                       \
  namespace parts {                       \
  struct name : tensors::name {           \
    using attr = attributes::name##List;  \
  };                                      \
  }
#include "schema/operators.inc"
#undef LIST

using namespace parts;

#define OPERATOR(kernel, operator_name, ...)            \
  struct operator_name : Operator<__VA_ARGS__> {        \
    static constexpr const char* name = #operator_name; \
  };
#include "schema/operators.inc"

// No std::array: Clang 14 deduces none of more than 256 elements.
inline constexpr const char* kOperatorNames[]{
#define OPERATOR(kernel, operator_name, ...) #operator_name,
#include "schema/operators.inc"
};

}  // namespace schema
}  // namespace edgespec
