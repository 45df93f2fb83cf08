package vm

import (
	"cmp"
	"maps"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
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
	take  func(dst, from *T)                 // from's value, or that there is none

	facts Facts

	keys     func() []string    // the sub-keys of a property string; nil: the option is one value
	rows     func() []row       // the facts of the sub-keys; nil: the option is one value
	copyRest func(from, to *T)  // gives to what from has in Rest
	fillRest func(t, server *T) // puts into t's Rest what server has and t does not say
	// rebase is Rebase for the sub-keys of a property string
	rebase func(server, prior, planned *T)
}

// row is a key with its facts.
type row struct {
	key   string
	facts Facts
	bare  bool // a value without a key is its own
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

// rows are the sub-keys with their facts.
func (f format[T]) rows() []row {
	var rows []row
	for _, l := range f.leaves {
		facts := l.facts
		facts.Path = cmp.Or(facts.Path, pathOf(l.key))
		rows = append(rows, row{l.key, facts, l.key == f.defaultKey})
	}
	return rows
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

// rebase gives both the server's value of each sub-key that both say alike. fillRest keeps one that neither says, where
// there is a Rest.
func (f format[T]) rebase(server, prior, planned *T) {
	for _, l := range f.leaves {
		was, said := l.show(prior)
		is, kept := l.show(planned)
		if said == kept && was == is && (said || f.rest == nil) {
			l.take(prior, server)
			l.take(planned, server)
		}
	}
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
	properties, ok := property.Parse(value, f.defaultKey)
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

func (f format[T]) encode(t *T) string { return property.Print(f.showAll(t), f.defaultKey) }

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
func scalar[T holder, V comparable](key string, field func(*T) **V, parse func(string) (V, bool), show func(V) string,
	facts ...Fact,
) leaf[T] {
	return leaf[T]{
		key: key, facts: collect(facts...),
		read: func(t *T, value string) bool {
			v, ok := parse(value)
			if ok {
				*field(t) = &v
			}
			return ok
		},
		show: func(t *T) (string, bool) {
			p := *field(t)
			if p == nil {
				return "", false
			}
			s := show(*p)
			return s, s != ""
		},
		merge: func(dst, want *T) {
			if p := *field(want); p != nil {
				*field(dst) = p
			}
		},
		take: func(dst, from *T) { *field(dst) = *field(from) },
	}
}

func text[T holder](key string, field func(*T) **string, facts ...Fact) leaf[T] {
	return scalar(key, field, property.ParseText, property.ShowText, facts...)
}

func flag[T holder](key string, field func(*T) **bool, facts ...Fact) leaf[T] {
	return scalar(key, field, property.ParseBool, property.ShowBool, facts...)
}

func integer[T holder](key string, field func(*T) **int64, facts ...Fact) leaf[T] {
	return scalar(key, field, property.ParseInteger, property.ShowInteger, facts...)
}

func decimal[T holder](key string, field func(*T) **float64, facts ...Fact) leaf[T] {
	return scalar(key, field, property.ParseDecimal, property.ShowDecimal, facts...)
}

// list makes a leaf of a slice field. An empty list is the same as none.
func list[T holder](key string, field func(*T) *[]string, parse func(string) []string, show func([]string) string,
	facts ...Fact,
) leaf[T] {
	return leaf[T]{
		key: key, facts: collect(facts...),
		read: func(t *T, value string) bool {
			if v := parse(value); len(v) > 0 {
				*field(t) = v
			}
			return true
		},
		show: func(t *T) (string, bool) {
			s := show(*field(t))
			return s, s != ""
		},
		merge: func(dst, want *T) {
			if v := *field(want); v != nil {
				*field(dst) = slices.Clone(v)
			}
		},
		take: func(dst, from *T) { *field(dst) = slices.Clone(*field(from)) },
	}
}
