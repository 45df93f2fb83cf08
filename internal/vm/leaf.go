package vm

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// holder is a struct whose fields stand for options or for sub-keys of a property string.
type holder interface {
	Spec | CPU | Agent | Disk | NIC | EFIDisk | TPMState | Address | CustomData | Startup | SMBIOS | VGA | Audio | RNG |
		Watchdog | SpiceEnhancements | IVSHMEM | AMDSEV | IntelTDX | PCI | USB | NUMANode | VirtioFS
}

// leaf ties one option or sub-key to one field of T. The tables of leaves (options, diskFormat, …) are the codec: a new
// option is a new row.
type leaf[T holder] struct {
	key   string
	read  func(t *T, value string) bool      // false: unreadable, the caller keeps the text
	show  func(t *T) (value string, ok bool) // canonical; false: not set
	merge func(dst, want *T)                 // want's value wins if there is one

	restart bool // PVE reads it at the start of a guest only (qemu-server QemuServer.pm vmconfig_hotplug_pending)

	keys     func() []string    // the sub-keys of a property string; nil: the option is one value
	copyRest func(from, to *T)  // gives to what from has in Rest
	fillRest func(t, server *T) // puts into t's Rest what server has and t does not say
}

// atStart marks an option that PVE reads at the start of a guest only.
func atStart(l leaf[Spec]) leaf[Spec] {
	l.restart = true
	return l
}

// format is a property string: its default key, its leaves, other names of its sub-keys, and where sub-keys go that no
// leaf expresses. Without rest such a sub-key makes the whole string unreadable.
type format[T holder] struct {
	defaultKey string
	leaves     []leaf[T]
	aliases    map[string]string // other name -> sub-key
	rest       func(*T) *map[string]string
}

// keys are the sub-keys that f expresses, and their other names.
func (f format[T]) keys() []string {
	keys := slices.Collect(maps.Keys(f.aliases))
	for _, l := range f.leaves {
		keys = append(keys, l.key)
	}
	return keys
}

// copyRest gives to the sub-keys that from has in Rest.
func (f format[T]) copyRest(from, to *T) {
	if f.rest != nil {
		*f.rest(to) = *f.rest(from)
	}
}

// fillRest puts into t's Rest what server has there, and what server has and t does not say. A t that comes from a
// narrower model, or that is older, is thus no order to reset it.
func (f format[T]) fillRest(t, server *T) {
	if f.rest == nil {
		return
	}
	rest := maps.Clone(*f.rest(server))
	for _, l := range f.leaves {
		if _, said := l.show(t); said {
			continue
		}
		if value, ok := l.show(server); ok {
			if rest == nil {
				rest = map[string]string{}
			}
			rest[l.key] = value
		}
	}
	*f.rest(t) = rest
}

// readAll distributes properties over t.
func (f format[T]) readAll(t *T, properties map[string]string) bool {
	left := maps.Clone(properties)
	for alias, key := range f.aliases {
		if _, both := left[key]; both {
			continue
		}
		if value, ok := left[alias]; ok {
			left[key] = value
			delete(left, alias)
		}
	}
	for _, l := range f.leaves {
		if val, ok := left[l.key]; ok && l.read(t, val) {
			delete(left, l.key)
		}
	}
	if len(left) == 0 {
		return true
	}
	if f.rest == nil {
		return false
	}
	*f.rest(t) = left
	return true
}

// showAll collects t's properties; a leaf wins over a sub-key of the same name in rest.
func (f format[T]) showAll(t *T) map[string]string {
	out := map[string]string{}
	if f.rest != nil {
		maps.Copy(out, *f.rest(t))
	}
	for _, l := range f.leaves {
		if val, ok := l.show(t); ok {
			out[l.key] = val
		}
	}
	return out
}

func (f format[T]) decode(t *T, value string) bool {
	properties, ok := parseProperties(value, f.defaultKey)
	if !ok {
		return false
	}
	next := *t
	if !f.readAll(&next, properties) {
		return false
	}
	*t = next
	return true
}

func (f format[T]) encode(t *T) string { return printProperties(f.showAll(t), f.defaultKey) }

func (f format[T]) merge(dst, want *T) {
	for _, l := range f.leaves {
		l.merge(dst, want)
	}
	if f.rest != nil {
		*f.rest(dst) = mergeRest(*f.rest(dst), *f.rest(want))
	}
}

// mergeRest lays want over base without touching either.
func mergeRest(base, want map[string]string) map[string]string {
	if len(want) == 0 {
		return base
	}
	out := maps.Clone(base)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, want)
	return out
}

// scalar makes a leaf of a pointer field. A value shown as "" counts as not set: PVE cannot store an empty option.
func scalar[T holder, V comparable](key string, at func(*T) **V, parse func(string) (V, bool), show func(V) string) leaf[T] {
	return leaf[T]{
		key: key,
		read: func(t *T, value string) bool {
			v, ok := parse(value)
			if ok {
				*at(t) = &v
			}
			return ok
		},
		show: func(t *T) (string, bool) {
			p := *at(t)
			if p == nil {
				return "", false
			}
			s := show(*p)
			return s, s != ""
		},
		merge: func(dst, want *T) {
			if p := *at(want); p != nil {
				*at(dst) = p
			}
		},
	}
}

func text[T holder](key string, at func(*T) **string) leaf[T] {
	return scalar(key, at, parseText, showText)
}

func flag[T holder](key string, at func(*T) **bool) leaf[T] {
	return scalar(key, at, parseBool, showBool)
}

func integer[T holder](key string, at func(*T) **int64) leaf[T] {
	return scalar(key, at, parseInteger, showInteger)
}

func decimal[T holder](key string, at func(*T) **float64) leaf[T] {
	return scalar(key, at, parseDecimal, showDecimal)
}

// list makes a leaf of a slice field. An empty list is the same as none.
func list[T holder](key string, at func(*T) *[]string, parse func(string) []string, show func([]string) string) leaf[T] {
	return leaf[T]{
		key: key,
		read: func(t *T, value string) bool {
			if v := parse(value); len(v) > 0 {
				*at(t) = v
			}
			return true
		},
		show: func(t *T) (string, bool) {
			s := show(*at(t))
			return s, s != ""
		},
		merge: func(dst, want *T) {
			if v := *at(want); v != nil {
				*at(dst) = slices.Clone(v)
			}
		},
	}
}

func parseText(s string) (string, bool) { return s, true }
func showText(s string) string          { return s }

func parseInteger(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

func showInteger(n int64) string { return strconv.FormatInt(n, 10) }

// parseDecimal accepts digits and one point only: no exponents, no NaN, which PVE's number check refuses or which would
// not compare equal to themselves.
func parseDecimal(s string) (float64, bool) {
	if s == "" || strings.Trim(s, "0123456789.") != "" {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil
}

func showDecimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
