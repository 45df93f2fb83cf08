package terraformtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// story is what happens to some resources one command after the other.
type story struct {
	name  string
	cases int
	steps []step
}

// turns are the bodies of a resource from step to step, each with the order that its provider gets, after a bar:
// `opt = "a" | apply-opt`. The last one stays until the end. A body of "-" takes the block away.
type turns []string

// full has something of everything.
const full = `opt = "o"
  oc = "c"
  group = { opt = "g" }
  made = { opt = "m" }
  slots = { a = { opt = "1" }, b = { oc = "2" } }
  items = [{ opt = "i" }, { oc = "j" }]
  units = [{ opt = "u" }, { opt = "v" }]
  found = { f = { opt = "f" } }
  tags = ["t", "u"]
  members = ["m", "n"]
  labels = { l = "v" }
  number = 1.5
  flag = true
  hidden = "h"`

// lives are resources whose plans hold. All of them live at once.
func lives() map[string]turns {
	all := map[string]turns{
		"plain": {"", "", "opt = null"}, "full": {full, full, strings.ReplaceAll(full, `"u"`, `"w"`), ""},
		"opt": {`opt = "1"`, `opt = "2"`, ""}, "oc": {`oc = "1"`, "", `oc = "2"`},
		"number": {"number = 1", "number = 2.50", "number = 100000000000000000000"},
		"flag":   {"flag = true", "flag = false", ""}, "hidden": {`hidden = "1"`, `hidden = "2"`, ""},
		"tags": {`tags = ["a"]`, `tags = []`, `tags = ["b", "a"]`}, "labels": {`labels = { a = "1" }`, "", `labels = {}`},
		"members":  {`members = ["b", "a"]`, `members = ["a", "b"]`, `members = []`},
		"secret":   {`secret = "1"`, `secret = "2"`, `secret = "2"` + "\n opt = \"x\"", ""},
		"group":    {`group = { opt = "1" }`, `group = { opt = "2" }`, `group = {}`, ""},
		"group_oc": {`group = { oc = "1" }`, `group = {}`, `group = { comp = null }`},
		"made":     {"", `made = { opt = "1" }`, "", `made = { oc = "2" }`, ""},
		"slots":    {`slots = { a = { opt = "1" } }`, `slots = { a = { opt = "1" }, b = {} }`, `slots = { b = {} }`, `slots = {}`, ""},
		"items":    {`items = [{ opt = "1" }, { oc = "2" }]`, `items = [{ oc = "2" }]`, `items = [{}, {}, {}]`, `items = []`},
		"units":    {`units = [{ opt = "1" }, { oc = "2" }]`, `units = [{ oc = "2" }, { opt = "3" }]`, `units = [{}]`, `units = []`},
		"found":    {"", `found = { a = { opt = "1" } }`, "", `found = { b = { oc = "1" } }`, ""},
		"volatile": {"", `opt = "1" | volatile`, `opt = "1" | volatile`},
		"force":    {`force = "1"`, `force = "2"`, ""}, "force_oc": {`force_oc = "1"`, "", `force_oc = "2"`},
		"group_force":        {`group = { force = "1" }`, `group = { force = "2" }`, ""},
		"force_fails":        {`force = "1"`, `force = "2" | delete-error`, `force = "2"`},
		"force_create_fails": {`force = "1"`, `force = "2" | apply-null-error`, `force = "2"`},
		"gone_and_forced":    {`force = "1"`, `force = "2" | read-gone`},
		"delete":             {"", "-"}, "delete_error": {"", "- | delete-error", "-"}, "delete_stays": {"", "- | delete-stays", "-"},
		"delete_null_error": {"", "- | delete-null-error", "-"}, "delete_warning": {"", "- | delete-warning"},
		"delete_gone":          {"", "- | read-gone"},
		"plan_destroy_warning": {"", "- | plan-destroy-warning"},
		"fails":                {`opt = "1" | apply-error`, `opt = "1"`}, "fails_unknown": {" | apply-unknown-error", ""},
		"update_fails":        {`opt = "1"`, `opt = "2" | apply-error`, `opt = "2"`},
		"update_fails_partly": {`opt = "1"`, `opt = "2" | apply-partial`, `opt = "2"`},
		"update_null":         {`opt = "1"`, `opt = "2" | apply-null`, ""},
		"update_null_error":   {`opt = "1"`, `opt = "2" | apply-null-error`, `opt = "2"`},
		"update_nothing":      {`opt = "1"`, `opt = "2" | apply-nothing`, `opt = "2"`}, "private_null": {"", `opt = "1" | plan-private-null`, ""},
	}
	for _, order := range []string{"replace-unchanged", "replace-opt", "replace-at-create", "plan-comp", "plan-oc-filled", "plan-comp-null",
		"plan-warning", "validate-warning", "read-warning", "upgrade-warning", "apply-warning", "read-gone", "read-opt", "read-comp",
		"read-no-oc",
		"read-private", "apply-comp", "apply-opt-filled", "apply-null", "apply-null-error", "apply-unknown", "apply-secret", "read-secret-none"} {
		all["from_create_"+order] = turns{" | " + order, "", `opt = "1"`}
		all["at_nothing_"+order] = turns{"", " | " + order, ""}
		all["at_update_"+order] = turns{`opt = "1"`, `opt = "2" | ` + order, `opt = "2"`}
	}
	for _, order := range []string{"replace-group", "replace-slot", "replace-gone-slot", "plan-group-comp", "apply-group",
		"apply-group-null", "apply-slot",
		"apply-slot-more", "apply-slot-less", "apply-units", "apply-tags", "apply-members", "apply-hidden", "apply-opt", "apply-opt-null",
		"plan-opt-prior"} {
		all["full_"+order] = turns{full, strings.ReplaceAll(full, `"o"`, `"p"`) + " | " + order, ""}
		all["changed_"+order] = turns{full, strings.NewReplacer(`"o"`, `"p"`, `"g"`, `"k"`, `"1"`, `"3"`, `"h"`,
			`"i"`).Replace(full) + " | " + order, full}
	}
	return all
}

// refusals are resources that live well and whose next plan fails.
func refusals() map[string]turns {
	all := map[string]turns{}
	for _, order := range []string{"plan-name", "plan-opt", "plan-opt-unknown", "plan-opt-null", "plan-oc", "plan-secret", "plan-hidden",
		"plan-group", "plan-group-null",
		"plan-group-unknown", "plan-slot", "plan-slot-more", "plan-slot-unknown", "plan-items", "plan-tags", "plan-null", "replace-nowhere",
		"plan-error", "read-error", "read-unknown", "read-secret", "upgrade-error"} {
		all[order] = turns{full, strings.ReplaceAll(full, `"o"`, `"p"`) + "\n  secret = \"s\" | " + order}
	}
	for _, order := range []string{"plan-opt-filled", "plan-null", "plan-name", "read-unknown", "plan-error"} {
		all["bare_"+order] = turns{"", " | " + order}
	}
	all["kept"] = turns{"force = \"1\"\n lifecycle { prevent_destroy = true }", "force = \"2\"\n lifecycle { prevent_destroy = true }"}
	all["destroy"] = turns{"", "- | plan-destroy-error"}
	return all
}

// invalid are configurations that do not stand.
func invalid() map[string]turns {
	return map[string]turns{
		"said": {" | validate-error"}, "stray": {`nonesuch = "1"`}, "read_only": {`id = "1"`}, "wrong_type": {`opt = ["1"]`},
		"wrong_number": {`number = "x"`},
		"wrong_nested": {`group = "1"`}, "wrong_list": {`items = { opt = "1" }`}, "wrong_inside": {`group = { opt = ["1"] }`},
		"no_such":      {"opt = sample_gadget.nowhere.id"},
		"no_attribute": {"opt = sample_gadget.said.nonesuch"}, "no_local": {"opt = local.none"}, "no_variable": {"opt = var.none"},
		"bad_call":  {`opt = upper()`},
		"bad_index": {`opt = ["a"][3]`},
	}
}

// tell makes a story of resources that live side by side. last is said of the final step.
func tell(name string, all map[string]turns, last func(*step)) story {
	s := story{name: name, cases: len(all)}
	length := 0
	for _, t := range all {
		length = max(length, len(t))
	}
	for n := range length {
		one := step{name: fmt.Sprintf("%s, step %d", name, n+1), orders: map[string]string{}}
		for _, label := range slices.Sorted(maps.Keys(all)) {
			t := all[label]
			body, order, _ := strings.Cut(t[min(n, len(t)-1)], " | ")
			if n >= len(t) {
				order = ""
			}
			id := strings.ReplaceAll(label, "-", "_")
			one.orders[id] = strings.TrimSpace(order)
			if body != "-" {
				one.config += fmt.Sprintf("resource \"sample_gadget\" %q {\n  name = %q\n  %s\n}\n", id, id, body)
			}
		}
		s.steps = append(s.steps, one)
	}
	if last != nil {
		last(&s.steps[len(s.steps)-1])
	}
	return s
}

// stories are those that a CLI is asked to play. Where OpenTofu is known to differ from Terraform, and the driver with it, it is not
// asked: it refuses an answer that holds something write-only as no answer at all, before anything comes of it
// (internal/plugin6/validation); it reads what is to be destroyed before it plans that, and need not plan it then; and an import or a
// refresh may answer with unknown values.
func stories(opentofu bool) []story {
	planOnly := func(s *step) { s.planOnly = true }
	alive := tell("lives", told(lives(), opentofu), nil)
	end := step{name: "destroy", destroy: true, config: alive.steps[len(alive.steps)-1].config}
	again := step{name: "refresh", refresh: true, config: end.config, orders: map[string]string{"plain": "read-opt", "opt": "read-gone",
		"oc": "read-private", "flag": "read-warning"}}
	alive.steps = append(alive.steps, again, end)
	return []story{alive, tell("refusals", told(refusals(), opentofu), planOnly), tell("invalid", invalid(), planOnly), together(), imports(opentofu),
		replacements(), orphans(), chain()}
}

// tellsSecret reports whether an order is to answer with something write-only.
func tellsSecret(order string) bool { return strings.HasSuffix(order, "-secret") }

// told leaves out what OpenTofu is not asked.
func told(all map[string]turns, opentofu bool) map[string]turns {
	maps.DeleteFunc(all, func(label string, t turns) bool {
		return opentofu && (label == "delete_gone" || label == "destroy" || strings.HasSuffix(label, "read-unknown") ||
			slices.ContainsFunc(t, tellsSecret))
	})
	return all
}

// together are resources that refer to each other, and several of one block.
func together() story {
	const all = `
locals { prefix = "made-${var.word}" }
variable "word" { default = "w" }
resource "sample_gadget" "first" {
  name = "first"
  opt  = %q
}
resource "sample_gadget" "second" {
  name = "second"
  opt  = "${local.prefix} ${sample_gadget.first.comp}"
  group = { opt = sample_gadget.first.comp }
  slots = { for k in ["a", "b"] : k => { opt = sample_gadget.first.id } }
}
resource "sample_gadget" "early" {
  name = "early"
  opt  = sample_gadget.first.comp
}
resource "sample_gadget" "late" {
  name = "late"
  opt  = sample_gadget.first.comp
}
data "sample_echo" "now" { of = "here" }
data "sample_echo" "later" { of = sample_gadget.first.comp }
data "sample_echo" "chain" { of = "${sample_gadget.second.id}-${data.sample_echo.now.echo}" }
resource "sample_gadget" "many" {
  count = %d
  name  = "many-${count.index}"
  opt   = data.sample_echo.later.echo
}
resource "sample_gadget" "each" {
  for_each   = toset(%s)
  name       = "each-${each.key}"
  opt        = each.value
  depends_on = [sample_gadget.second]
}
resource "sample_gadget" "ignored" {
  name  = "ignored"
  opt   = %q
  group = { opt = %q }
  lifecycle { ignore_changes = [opt, group.opt] }
}
output "firsts" { value = [sample_gadget.first.comp, data.sample_echo.now.echo] }
output "many" { value = sample_gadget.many[*].id }
output "each" { value = { for k, v in sample_gadget.each : k => v.opt } }
`
	config := func(opt string, count int, keys string) string { return fmt.Sprintf(all, opt, count, keys, opt, opt) }
	early := map[string]string{"early": "plan-early", "late": "plan-late"}
	return story{name: "together", cases: 12, steps: []step{
		{name: "create", config: config("1", 2, `["a", "b"]`), orders: early},
		{name: "create again", config: config("1", 2, `["a", "b"]`)},
		{name: "nothing", config: config("1", 2, `["a", "b"]`)},
		{name: "change", config: config("2", 1, `["b", "c"]`), orders: map[string]string{"first": "volatile", "late": "plan-late"}},
		{name: "dependents of a failure", config: config("3", 3, `["c"]`), orders: map[string]string{"first": "apply-error"}},
		{name: "taint", config: config("3", 3, `["c"]`), taint: []string{"sample_gadget.first"}},
		{name: "fewer", config: config("3", 0, `[]`)},
		{name: "destroy", destroy: true, config: config("3", 0, `[]`), orders: map[string]string{"second": "delete-error"}},
		{name: "destroy again", destroy: true, config: config("3", 0, `[]`)},
	}}
}

func imports(opentofu bool) story {
	s := story{name: "imports"}
	config, orders := "", map[string]string{"error": "import-error", "warning": "import-warning", "none": "import-none", "null": "import-null",
		"unknown": "import-unknown", "gone": "read-gone", "read_error": "read-error", "read_secret": "read-secret", "read_opt": "read-opt",
		"fine": ""}
	maps.DeleteFunc(orders, func(_, order string) bool { return opentofu && (order == "import-unknown" || tellsSecret(order)) })
	names := slices.Sorted(maps.Keys(orders))
	for _, name := range names {
		config += fmt.Sprintf("resource \"sample_gadget\" %q {\n  name = %q\n}\n", name, name)
	}
	for _, name := range append(names, "fine") {
		s.steps = append(s.steps, step{name: "import " + name, config: config, orders: orders, importing: "sample_gadget." + name, id: name})
	}
	s.cases = len(s.steps)
	return s
}

// replacements are resources with create_before_destroy, whose replacements go well and wrong in each place.
func replacements() story {
	orders := map[string]string{"goes_well": "", "plan_in_the_apply_fails": "replan-error", "create_fails": "apply-null-error",
		"create_leaves_something": "apply-error", "destroy_fails": "delete-error", "plan_of_the_destroy_fails": "plan-destroy-error"}
	var all []string
	config := func(value string) (text string) {
		for _, name := range slices.Sorted(maps.Keys(orders)) {
			text += fmt.Sprintf("resource \"sample_gadget\" %q {\n  name  = %q\n  force = %q\n  lifecycle { create_before_destroy = true }\n}\n",
				name, name, value)
		}
		return text
	}
	for name := range orders {
		all = append(all, "sample_gadget."+name)
	}
	slices.Sort(all)
	return story{name: "replacements", cases: 3 * len(orders), steps: []step{
		{name: "made", config: config("1")},
		{name: "changed", config: config("2"), orders: orders},
		{name: "changed, again", config: config("2"), unordered: true},
		{name: "with -replace", config: config("2"), orders: orders, replace: all},
		{name: "with -replace, again", config: config("2"), unordered: true},
		{name: "tainted", config: config("2"), orders: orders, taint: all},
		{name: "tainted, again", config: config("2"), unordered: true},
		{name: "destroy", destroy: true, config: config("2")},
	}}
}

// orphans leave the configuration in the step in which another resource, which has depended on them, is changed; with
// create_before_destroy, which the state remembers, they go after that. Where the one that comes first fails, the other does not come.
func orphans() story {
	const first = "  lifecycle { create_before_destroy = true }\n"
	orders := map[string]string{"a": "", "b": "", "c": "apply-error", "d": "apply-error", "e": ""}
	lifecycle := map[string]string{"b": first, "d": first}
	config := func(has bool, lifecycle map[string]string) (text string) {
		for _, name := range slices.Sorted(maps.Keys(orders)) {
			opt := "\"none\""
			if has {
				text += fmt.Sprintf("resource \"sample_gadget\" \"of_%s\" {\n  name = \"of_%s\"\n%s}\n", name, name, lifecycle[name])
				opt = "sample_gadget.of_" + name + ".name"
			}
			text += fmt.Sprintf("resource \"sample_gadget\" %q {\n  name = %q\n  opt = %s\n}\n", name, name, opt)
		}
		return text
	}
	gone := maps.Clone(orders)
	gone["of_e"] = "delete-error"
	return story{name: "orphans", cases: len(orders), steps: []step{
		{name: "made", config: config(true, nil)},
		{name: "the setting comes", config: config(true, lifecycle)},
		{name: "orphaned", config: config(false, nil), orders: gone},
		{name: "orphaned, again", config: config(false, nil), unordered: true},
		{name: "destroy", destroy: true, config: config(false, nil)},
	}}
}
