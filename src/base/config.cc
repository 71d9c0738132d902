#include "base/config.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/config_value.h"

namespace kedge {
namespace {

// Levenshtein distance.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

// The candidate that is closest to `name`, if any is close.
class NearestText {
 public:
  explicit NearestText(std::string_view name) : name_(name), distance_(std::max<size_t>(name.size() / 2, 2)) {}

  void Consider(const std::string& known) {
    const size_t distance = EditDistance(name_, known);
    if (distance > distance_ || (nearest_ && distance == distance_)) return;
    distance_ = distance;
    nearest_ = known;
  }
  std::optional<std::string> Take() { return std::move(nearest_); }

 private:
  const std::string_view name_;
  size_t distance_;
  std::optional<std::string> nearest_;
};

// The default of a required key in a table list is never used, so it need not fit.
void CheckDefault(const KeySpec& spec) {
  KEDGE_CHECK(spec.required || ParseConfigData(spec, spec.default_text).ok());
}

template <typename T>
const T& Typed(const ConfigValue& value) {
  static const T kZero{};
  if (std::holds_alternative<ConfigAuto>(value.data)) return kZero;
  const T* typed = std::get_if<T>(&value.data);
  KEDGE_CHECK(typed != nullptr);
  return *typed;
}

template <typename Map>
const auto& At(const Map& map, std::string_view key) {
  const auto found = map.find(key);
  KEDGE_CHECK(found != map.end());
  return found->second;
}

}  // namespace

std::string QuoteToml(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

void ConfigRegistry::Add(KeySpec spec) {
  CheckDefault(spec);
  std::string variable = VariableOf(spec.name);
  KEDGE_CHECK(variables_.find(variable) == variables_.end());
  KEDGE_CHECK(key_variables_.insert(std::move(variable)).second);
  std::string name = spec.name;
  keys_.emplace(std::move(name), std::move(spec));
}

void ConfigRegistry::AddTableList(TableListSpec spec) {
  for (const KeySpec& key : spec.keys) CheckDefault(key);
  KEDGE_CHECK(table_lists_.find(spec.name) == table_lists_.end());
  std::string name = spec.name;
  table_lists_.emplace(std::move(name), std::move(spec));
}

void ConfigRegistry::AddVariable(std::string name, std::string doc) {
  variables_.insert_or_assign(std::move(name), std::move(doc));
}

const KeySpec* ConfigRegistry::Find(std::string_view name) const {
  const auto found = keys_.find(name);
  return found == keys_.end() ? nullptr : &found->second;
}

const TableListSpec* ConfigRegistry::FindTableList(std::string_view name) const {
  const auto found = table_lists_.find(name);
  return found == table_lists_.end() ? nullptr : &found->second;
}

std::string ConfigRegistry::VariableOf(std::string_view name) {
  std::string variable = "KEDGE_";
  for (const char c : name) {
    if (c == '.' || c == '-') {
      variable += '_';
    } else {
      variable += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    }
  }
  return variable;
}

std::optional<std::string> ConfigRegistry::Nearest(std::string_view name) const {
  NearestText nearest(name);
  for (const auto& [known, spec] : keys_) nearest.Consider(known);
  for (const auto& [known, spec] : table_lists_) nearest.Consider(known);
  return nearest.Take();
}

std::optional<std::string> ConfigRegistry::NearestVariable(std::string_view variable) const {
  NearestText nearest(variable);
  for (const auto& [known, spec] : keys_) nearest.Consider(VariableOf(known));
  for (const auto& [known, spec] : table_lists_) nearest.Consider(VariableOf(known));
  for (const auto& [known, doc] : variables_) nearest.Consider(known);
  return nearest.Take();
}

bool ConfigTable::IsAuto(std::string_view key) const {
  return std::holds_alternative<ConfigAuto>(At(values_, key).data);
}
bool ConfigTable::GetBool(std::string_view key) const {
  return Typed<bool>(At(values_, key));
}
int64_t ConfigTable::GetInt64(std::string_view key) const {
  return Typed<int64_t>(At(values_, key));
}
double ConfigTable::GetDouble(std::string_view key) const {
  return Typed<double>(At(values_, key));
}
const std::string& ConfigTable::GetString(std::string_view key) const {
  return Typed<std::string>(At(values_, key));
}
uint64_t ConfigTable::GetBytes(std::string_view key) const {
  return Typed<uint64_t>(At(values_, key));
}
Duration ConfigTable::GetDuration(std::string_view key) const {
  return Typed<Duration>(At(values_, key));
}

bool Config::IsAuto(std::string_view key) const {
  return std::holds_alternative<ConfigAuto>(At(values_, key).data);
}
bool Config::GetBool(std::string_view key) const {
  return Typed<bool>(At(values_, key));
}
int64_t Config::GetInt64(std::string_view key) const {
  return Typed<int64_t>(At(values_, key));
}
double Config::GetDouble(std::string_view key) const {
  return Typed<double>(At(values_, key));
}
const std::string& Config::GetString(std::string_view key) const {
  return Typed<std::string>(At(values_, key));
}
uint64_t Config::GetBytes(std::string_view key) const {
  return Typed<uint64_t>(At(values_, key));
}
Duration Config::GetDuration(std::string_view key) const {
  return Typed<Duration>(At(values_, key));
}
const std::vector<ConfigTable>& Config::GetTables(std::string_view name) const {
  return At(tables_, name);
}

const ConfigOrigin& Config::OriginOf(std::string_view key) const {
  const auto value = values_.find(key);
  return value != values_.end() ? value->second.origin : At(table_origins_, key);
}

std::string Config::TextOf(std::string_view key) const {
  if (const auto value = values_.find(key); value != values_.end()) return FormatConfigData(value->second.data);
  std::string text = "[";
  for (const ConfigTable& table : GetTables(key)) {
    text += text.size() > 1 ? ", {" : "{";
    bool first = true;
    for (const auto& [name, value] : table.values_) {
      const bool plain = std::holds_alternative<bool>(value.data) || std::holds_alternative<int64_t>(value.data) ||
                         std::holds_alternative<double>(value.data);
      const std::string formatted = FormatConfigData(value.data);
      text += fmt::format("{}{} = {}", first ? "" : ", ", name, plain ? formatted : QuoteToml(formatted));
      first = false;
    }
    text += '}';
  }
  return text + ']';
}

std::vector<ConfigEntry> Config::Entries() const {
  std::vector<ConfigEntry> entries;
  for (const auto& [name, spec] : registry_.keys()) {
    std::string text = TextOf(name);
    if (spec.secret && !text.empty()) text = "(set)";
    entries.push_back({name, std::move(text), spec.unit, spec.doc, spec.scope, OriginOf(name)});
  }
  for (const auto& [name, spec] : registry_.table_lists()) {
    entries.push_back({name, TextOf(name), "", spec.doc, spec.scope, OriginOf(name)});
  }
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  return entries;
}

}  // namespace kedge
