package otherstate

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// object is a part of a state of unknown form: a later version of the provider that wrote it may have changed anything.
// A value of another form than expected is recorded and read as absent.
type object struct {
	attributes map[string]json.RawMessage
	at         string // its path
	odd        *[]string
}

// parse reads a whole state.
func parse(raw []byte) (object, error) {
	o := object{odd: new([]string)}
	err := json.Unmarshal(raw, &o.attributes)
	return o, err
}

func (o object) path(name string) string { return strings.TrimPrefix(o.at+"."+name, ".") }

// note records that an attribute has another form than expected.
func (o object) note(name string) { *o.odd = append(*o.odd, o.path(name)) }

// has reports whether an attribute has a value.
func (o object) has(name string) bool {
	raw := bytes.TrimSpace(o.attributes[name])
	return len(raw) > 0 && string(raw) != "null"
}

// text returns a text, a number or a truth value as a text; "" if there is none.
func (o object) text(name string) string {
	if !o.has(name) {
		return ""
	}
	text, ok := scalar(o.attributes[name])
	if !ok {
		o.note(name)
	}
	return text
}

func scalar(raw json.RawMessage) (string, bool) {
	var text string
	switch raw = bytes.TrimSpace(raw); raw[0] {
	case '{', '[':
		return "", false
	case '"':
		err := json.Unmarshal(raw, &text)
		return text, err == nil
	default:
		return string(raw), true
	}
}

// number returns a whole number; 0 if there is none.
func (o object) number(name string) int64 {
	text := o.text(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n != float64(int64(n)) {
		o.note(name)
		return 0
	}
	return int64(n)
}

// truth returns a truth value; byDefault if there is none.
func (o object) truth(name string, byDefault bool) bool {
	text := o.text(name)
	if text == "" {
		return byDefault
	}
	is, err := strconv.ParseBool(text)
	if err != nil {
		o.note(name)
		return byDefault
	}
	return is
}

// texts returns the elements of a list or a set.
func (o object) texts(name string) []string {
	if !o.has(name) {
		return nil
	}
	var elements []json.RawMessage
	if json.Unmarshal(o.attributes[name], &elements) != nil {
		o.note(name)
		return nil
	}
	var all []string
	for _, raw := range elements {
		text, ok := scalar(raw)
		if !ok {
			o.note(name)
			return nil
		}
		all = append(all, text)
	}
	return all
}

// group returns one nested object: an attribute, or the only block of its kind. Without one it is empty.
func (o object) group(name string) object {
	for _, inner := range o.groups(name) {
		return inner.object
	}
	return object{at: o.path(name), odd: o.odd}
}

// keyed is a nested object with its key in a map; "" in a list of blocks.
type keyed struct {
	object
	key string
}

// groups returns the nested objects under a name: blocks, a map, or a single one. The values tell the last two apart:
// those of a map are objects.
func (o object) groups(name string) []keyed {
	if !o.has(name) {
		return nil
	}
	raw := o.attributes[name]
	var list []map[string]json.RawMessage
	var single map[string]json.RawMessage
	var slots map[string]map[string]json.RawMessage
	var all []keyed
	add := func(key, at string, attributes map[string]json.RawMessage) {
		all = append(all, keyed{object{attributes: attributes, at: at, odd: o.odd}, key})
	}
	switch {
	case json.Unmarshal(raw, &list) == nil:
		for i, attributes := range list {
			if attributes != nil { // bpg writes null for a block without arguments
				add("", o.path(name)+"["+strconv.Itoa(i)+"]", attributes)
			}
		}
	case json.Unmarshal(raw, &slots) == nil:
		for _, key := range slices.Sorted(maps.Keys(slots)) {
			add(key, o.path(name)+"."+key, slots[key])
		}
	case json.Unmarshal(raw, &single) == nil:
		add("", o.path(name), single)
	default:
		o.note(name)
	}
	return all
}
