package schema

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/release"
)

// Format is the grammar of one property string: comma separated key=value parts, one key perhaps bare.
type Format struct {
	// Name is PVE's id of the format, empty if it has none.
	Name string
	// Params are the keys.
	Params map[string]*Param

	option     string // prefix of the keys in errors
	defaultKey string
	combined   string // the key printed as name of another: model in model=MAC
	combinedBy string // that other key: macaddr
	check      func(map[string]string) error
}

func newFormat(name string, params map[string]*Param) *Format {
	f := &Format{Name: name, Params: params}
	for key, p := range params {
		if p.DefaultKey {
			f.defaultKey = key
		}
		if p.KeyAlias != "" {
			f.combined, f.combinedBy = p.KeyAlias, p.Alias
		}
	}
	return f
}

// Format returns the grammar of a VM option that is a property string ("net0", "scsi1", "cpu", "boot"), or of a format
// by its id ("pve-qm-boot"). Errors of its Parse name the option. ok is false for options that are plain values.
func (s *Set) Format(option string) (f *Format, ok bool) {
	if p := s.vm[option]; p != nil {
		f = p.nested
	} else {
		f = s.formats[option]
	}
	if f == nil {
		return nil, false
	}
	named := *f
	named.option = option
	return &named, true
}

// Has reports whether the release knows a key of the format.
func (f *Format) Has(key string) bool {
	_, ok := f.Params[key]
	return ok
}

// Parse splits and checks a property string. Aliases are resolved (volume=X is file, virtio=MAC is model and macaddr),
// the bare value is stored under the default key, and booleans become "1" or "0"; a bare boolean must already be one,
// PVE 8 does not translate it (pve-common 9.0.12 does). An error is PVE's text with its line breaks, without the prefix
// "invalid format - " that a parameter error has.
func (f *Format) Parse(value string) (map[string]string, error) { return f.parse(f.option, value) }

func (f *Format) parse(path, value string) (map[string]string, error) {
	out := map[string]string{}
	bare := false
	for _, part := range strings.Split(value, ",") {
		if strings.TrimLeft(part, " \t\n\r\f\v") == "" {
			continue
		}
		if !strings.Contains(part, "=") {
			switch {
			case bare || f.defaultKey != "" && perlTrue(out[f.defaultKey]):
				return nil, die("duplicate key in comma-separated list property: %s\n", f.defaultKey)
			case f.defaultKey == "":
				return nil, die("value without key, but schema does not define a default key\n")
			}
			bare = true
			out[f.defaultKey] = part
			continue
		}
		if err := f.pair(out, part); err != nil {
			return nil, err
		}
	}
	errs := faults{}
	checkObject(path, f.Params, out, false, errs)
	if len(errs) > 0 {
		return nil, formatError(errs)
	}
	if f.check != nil {
		if err := f.check(out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// pair stores one key=value part. The value ends at the first line break, if that is the part's last character; a part
// with one in the middle, or without a key or a value, has no key for PVE.
func (f *Format) pair(out map[string]string, part string) error {
	key, value, _ := strings.Cut(part, "=")
	value = strings.TrimSuffix(value, "\n")
	if key == "" || value == "" || strings.Contains(value, "\n") {
		return die("missing key in comma-separated list property\n")
	}
	if _, again := out[key]; again {
		return die("duplicate key in comma-separated list property: %s\n", key)
	}
	rule := f.Params[key]
	if rule != nil && rule.Alias != "" {
		if rule.KeyAlias != "" {
			if _, again := out[rule.KeyAlias]; again {
				return die("key alias '%s' is already defined\n", rule.KeyAlias)
			}
			out[rule.KeyAlias] = key
		}
		key = rule.Alias
		rule = f.Params[key]
	}
	if rule != nil && rule.Type == "boolean" {
		value = boolean(value)
	}
	out[key] = value
	return nil
}

// formatError is how Perl prints an exception with several errors: a head line, then one line a key, sorted.
func formatError(errs faults) error {
	var b strings.Builder
	b.WriteString("format error\n")
	for _, key := range sortedKeys(errs) {
		fmt.Fprintf(&b, "%s: %s\n", key, errs[key])
	}
	return die("%s", b.String())
}

// boolean turns the words that JSONSchema.pm parse_boolean knows into 1 and 0 and leaves others for the type check.
func boolean(value string) string {
	switch strings.ToLower(strings.TrimSuffix(value, "\n")) {
	case "1", "on", "yes", "true":
		return "1"
	case "0", "off", "no", "false":
		return "0"
	}
	return value
}

// Print writes a property string the way PVE does when it stores drives and netN: the default key's value first and
// bare (model and MAC as model=MAC), then required keys, then optional ones, each sorted; sizes in the largest exact
// unit. A value must not contain a comma: PVE dies there, Print writes what cannot be parsed again.
func (f *Format) Print(m map[string]string) string {
	var parts []string
	done := map[string]bool{}
	put := func(key string, bare bool) {
		value, given := m[key]
		if !given || done[key] {
			return
		}
		done[key] = true
		value = f.text(key, value)
		other, combine := m[f.combinedBy]
		switch {
		case key == f.combined && combine:
			done[f.combinedBy] = true
			parts = append(parts, value+"="+f.text(f.combinedBy, other))
		case bare:
			parts = append(parts, value)
		default:
			parts = append(parts, key+"="+value)
		}
	}
	if f.defaultKey != "" {
		put(f.defaultKey, true)
	}
	for _, key := range sortedKeys(m) {
		if p := f.Params[key]; p != nil && !p.Optional {
			put(key, false)
		}
	}
	for _, key := range sortedKeys(m) {
		put(key, false)
	}
	return strings.Join(parts, ",")
}

func (f *Format) text(key, value string) string {
	if p := f.Params[key]; p != nil && p.Format == "disk-size" {
		if bytes, ok := ParseSize(value); ok {
			return FormatSize(bytes)
		}
	}
	return value
}

// dieError is the text of a Perl exception as it is: PVE joins these texts as they come, line breaks included.
type dieError string

// Error is the text of the die.
func (d dieError) Error() string { return string(d) }

func die(format string, args ...any) error { return dieError(fmt.Sprintf(format, args...)) }

// checkCPU is what qemu-server CPUConfig.pm checks beyond the keys. The simulated cluster defines no custom models.
func checkCPU(version string) func(m map[string]string) error {
	return func(m map[string]string) error { return checkCPUOf(m, version) }
}

// nestedVirt is the shorthand for what the vendors call vmx and svm.
var nestedVirt = release.Fact{Package: "qemu-server", Since: "9.0.27",
	Source: "QemuServer/CPUConfig.pm, supported flags (9e319737)"}

func checkCPUOf(m map[string]string, version string) error {
	cputype := m["cputype"]
	if !perlTrue(cputype) {
		return die("CPU is missing cputype\n")
	}
	if custom, ok := strings.CutPrefix(cputype, "custom-"); ok {
		return die("Custom cputype '%s' not found\n", custom)
	}
	if !contains(builtinCPUs(), cputype) {
		return die("Built-in cputype '%s' is not defined (missing 'custom-' prefix?)\n", cputype)
	}
	names := strings.Split("pcid spec-ctrl ibpb ssbd virt-ssbd amd-ssbd amd-no-ssb pdpe1gb md-clear hv-tlbflush "+
		"hv-evmcs aes", " ")
	if nestedVirt.Has(version) {
		names = append([]string{"nested-virt"}, names...)
	}
	one := "[+-](?:" + strings.Join(names, "|") + ")"
	if flags := m["flags"]; perlTrue(flags) && !regexp.MustCompile("^"+one+"(?:;"+one+")*$").MatchString(flags) {
		return die("VM-specific CPU flags must be a subset of: %s\n", strings.Join(names, ", "))
	}
	if _, given := m["reported-model"]; given {
		return die("Property 'reported-model' not allowed in VM-specific CPU config.\n")
	}
	return nil
}

// checkPrune is pve-storage Plugin.pm validate_prune_backups: keep-all excludes all positive keep-x.
func checkPrune(m map[string]string) error {
	if !perlTrue(m["keep-all"]) {
		return nil
	}
	for key, value := range m {
		if key != "keep-all" && strings.Trim(value, "+-0") != "" {
			return die("keep-all cannot be set together with other options.\n")
		}
	}
	return nil
}
