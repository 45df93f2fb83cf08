package vmschema

import (
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// withFacts ends the description of each attribute with the facts of the attribute table: PVE's default, when a change
// takes effect, the first release, and the privileges. A fact that all attributes of a group share is said of the
// group.
func withFacts(attributes map[string]schema.Attribute) map[string]schema.Attribute {
	return described{facts: vm.Attributes()}.all("", attributes)
}

// described are the attributes of a group, below what is said of the group already.
type described struct {
	facts             []vm.Attribute
	effect, privilege string // the sentences of the group
}

func (d described) all(prefix string, attributes map[string]schema.Attribute) map[string]schema.Attribute {
	out := make(map[string]schema.Attribute, len(attributes))
	for name, attribute := range attributes {
		out[name] = d.one(prefix+name, attribute)
	}
	return out
}

func (d described) one(path string, attribute schema.Attribute) schema.Attribute {
	inside := d
	text := d.sentences(path, &inside)
	switch a := attribute.(type) {
	case schema.StringAttribute:
		a.MarkdownDescription += text
		return a
	case schema.BoolAttribute:
		a.MarkdownDescription += text
		return a
	case schema.Int64Attribute:
		a.MarkdownDescription += text
		return a
	case schema.Float64Attribute:
		a.MarkdownDescription += text
		return a
	case schema.SetAttribute:
		a.MarkdownDescription += text
		return a
	case schema.ListAttribute:
		a.MarkdownDescription += text
		return a
	case schema.SingleNestedAttribute:
		a.MarkdownDescription += text
		a.Attributes = inside.all(path+".", a.Attributes)
		return a
	case schema.MapNestedAttribute:
		a.MarkdownDescription += text
		a.NestedObject.Attributes = inside.all(path+".*.", a.NestedObject.Attributes)
		return a
	}
	return attribute
}

// sentences are those about the attribute at a path. It notes in inside which of them hold for all attributes below.
func (d described) sentences(path string, inside *described) (text string) {
	var facts vm.Facts // those of the attribute itself; the buses of disks share theirs
	var effects, privileges []string
	for i := range d.facts {
		a := &d.facts[i]
		below, found := strings.CutPrefix(a.Path, path)
		if !found || below != "" && below[0] != '.' {
			continue
		}
		if below == "" || below == ".*" {
			facts = merged(facts, a.Facts)
		}
		effects, privileges = append(effects, effectOf(a.Facts)), append(privileges, privilegeOf(a.Facts))
	}
	if effect := common(effects, false); effect != d.effect && effect != "" {
		text, inside.effect = text+effect, effect
	}
	if facts.Since.Release != "" {
		text += " PVE " + facts.Since.Releases() + "."
	}
	if privilege := common(privileges, true); privilege != d.privilege && privilege != "" {
		text, inside.privilege = text+privilege, privilege
	}
	if facts.Grant.Privilege != "" {
		object := strings.Replace(facts.Grant.Object, "%s", "<"+path[strings.LastIndex(path, ".")+1:]+">", 1)
		if facts.Grant.Value != "" {
			text += " `" + facts.Grant.Value + "` needs `" + facts.Grant.Privilege + "` on `" + object + "`."
		} else {
			text += " Needs `" + facts.Grant.Privilege + "` on `" + object + "`."
		}
	}
	if facts.Root.Instead != "" && facts.Root.Values == nil {
		text += " **Only `root@pam`.**"
	}
	return text + defaultOf(facts)
}

// merged are the facts of an attribute that is an option and a sub-key of it in one, such as machine.
func merged(option, key vm.Facts) vm.Facts {
	if key.Default == "" && key.Usual == "" {
		key.Default, key.Usual = option.Default, option.Usual
	}
	if key.Root.Instead == "" {
		key.Root = option.Root
	}
	if key.Since.Release == "" {
		key.Since = option.Since
	}
	if key.Grant.Privilege == "" {
		key.Grant = option.Grant
	}
	return key
}

// common is the sentence that all have, "" if they differ. With skipEmpty those without one do not count.
func common(sentences []string, skipEmpty bool) string {
	first, found := "", false
	for _, s := range sentences {
		switch {
		case skipEmpty && s == "":
		case !found:
			first, found = s, true
		case s != first:
			return ""
		}
	}
	return first
}

func effectOf(f vm.Facts) string {
	switch {
	case f.Effect == vm.AtStart:
		return " Needs a restart."
	case f.Feature != "":
		return " Needs a restart without `" + f.Feature + "` in `hotplug`."
	}
	return ""
}

func privilegeOf(f vm.Facts) string {
	if len(f.Privileges) == 0 {
		return ""
	}
	return " Needs `" + strings.Join(f.Privileges, "` or `") + "`."
}

func defaultOf(f vm.Facts) string {
	switch {
	case f.Usual != "":
		return " Default: " + f.Usual + "."
	case f.Default == "":
		return ""
	case strings.Trim(f.Default, "0123456789") == "":
		return " Default: " + f.Default + "."
	}
	return " Default: `" + f.Default + "`."
}
