package otherstate

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Setting is an argument that the other provider's configuration had set, as far as its state tells: its value is not
// that provider's default.
type Setting struct {
	Theirs string `json:"theirs"` // network_device[0].vlan_id
	Ours   string `json:"ours"`   // networks.net0.tag
	Value  string `json:"value"`  // "" for a text that may be long or secret
}

// device is a group of arguments of another provider: a block or an object, and the arguments in it.
type device struct {
	// block is the path to it. The last part may be there several times.
	block string
	// slot says how the last part of block is named here: "" is by its key in a map, or not at all; "@interface" is by its
	// argument; "=" is by the name of the block below; "net" is by its place in a list or, with "#id", by its number.
	slot string
	// part is the path to the arguments below that.
	part  string
	ours  string // path here, "*" is the slot
	names []name
}

// name is an argument with its name here. Defaults are the values that it has without a configuration, separated by
// "|", besides null, "", 0, an empty list and, where it is not true, false.
type name struct{ theirs, ours, defaults string }

// settings returns the arguments of the devices that are set.
func settings(o object, devices []device) []Setting {
	o.odd = new([]string) // what has another form says nothing here
	var all []Setting
	for _, d := range devices {
		for _, part := range d.parts(o) {
			for _, n := range d.names {
				if value, ok := part.setting(n); ok {
					all = append(all, Setting{Theirs: part.path(n.theirs), Value: value,
						Ours: strings.TrimPrefix(strings.ReplaceAll(d.ours, "*", part.key)+"."+n.ours, ".")})
				}
			}
		}
	}
	return all
}

// parts are the objects of a device, each with its slot as key.
func (d device) parts(o object) []keyed {
	steps := strings.Split(d.block, ".")
	for _, step := range steps[:len(steps)-1] {
		o = o.group(step)
	}
	last := steps[len(steps)-1]
	var all []keyed
	switch {
	case d.block == "":
		return []keyed{{object: o}}
	case d.slot == "=":
		o = o.group(last)
		for _, slot := range slices.Sorted(maps.Keys(o.attributes)) {
			all = append(all, keyed{o.group(slot), strings.Replace(slot, "pci", "hostpci", 1)})
		}
	default:
		for i, one := range o.groups(last) {
			all = append(all, keyed{one.object, d.slotOf(one, i)})
		}
	}
	if d.part != "" {
		for i := range all {
			for _, step := range strings.Split(d.part, ".") {
				all[i].object = all[i].group(step)
			}
		}
	}
	return all
}

func (d device) slotOf(one keyed, i int) string {
	if argument, ok := strings.CutPrefix(d.slot, "@"); ok && one.key == "" {
		slot := one.text(argument)
		if _, err := strconv.Atoi(slot); err == nil { // Telmate/proxmox 2.x
			slot = one.text("type") + slot
		}
		return slot
	}
	family, number, numbered := strings.Cut(d.slot, "#")
	switch {
	case one.key != "" || d.slot == "":
		return one.key
	case numbered && one.has(number):
		return family + one.text(number)
	}
	return family + strconv.Itoa(i)
}

// setting returns the value of an argument that is set.
func (o object) setting(n name) (string, bool) {
	raw := bytes.TrimSpace(o.attributes[n.theirs])
	var list []json.RawMessage
	if len(raw) == 0 || string(raw) == "null" {
		return "", false
	}
	if json.Unmarshal(raw, &list) == nil {
		return "", len(list) > 0
	}
	text, ok := scalar(raw)
	byDefault := strings.Split(n.defaults, "|")
	if !slices.Contains(byDefault, "true") {
		byDefault = append(byDefault, "false")
	}
	if !ok || slices.Contains(append(byDefault, "", "0"), text) {
		return "", false
	}
	if n.ours == "description" || n.ours == "args" || !regexp.MustCompile(`^[A-Za-z0-9_.:/+-]{1,40}$`).MatchString(text) {
		text = ""
	}
	return text, true
}

// same are arguments with the same name here.
func same(names ...string) []name {
	var all []name
	for _, n := range names {
		all = append(all, name{n, n, ""})
	}
	return all
}

// Renamed returns the name here of a key of another provider, by the path of the object that it was written in, with
// "*" for a slot: "tag" for "vlan_id" in "networks.*". It is "" for a key that no other provider has there.
func Renamed(in, key string) string {
	for _, d := range append(bpgDevices(), telmateDevices()...) {
		for _, n := range d.names {
			if d.ours == in && n.theirs == key && !strings.Contains(n.ours, ".") {
				return n.ours
			}
		}
	}
	return ""
}
