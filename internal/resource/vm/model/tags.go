package model

import (
	"context"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// WithTagStyle is v with the datacenter's idea of tags. By PVE's default "Web" and "web" are one, and so they are for
// rules; only where two lists differ in nothing but case the server is asked, once.
func WithTagStyle(ctx context.Context, session *kit.Session, v Values, was, is []string) Values {
	if slices.Equal(sorted(was), sorted(is)) || !slices.Equal(Lowered(was), Lowered(is)) || !session.Known() {
		return v
	}
	if exact, err := session.API.Cluster().TagsAreCaseSensitive(ctx); err != nil || !exact {
		return v
	}
	all := Rules()
	all["tags"] = plan.Rule{Same: sameSet(verbatim)}
	all["tags_all"] = all["tags"]
	v.Shape = plan.NewShape(ctx, v.Schema, all)
	return v
}

func sorted(tags []string) []string {
	all := slices.Clone(tags)
	slices.Sort(all)
	return slices.Compact(all)
}

// Lowered is a list of tags as PVE has it by default: lower case, each once, sorted. An element may hold several.
func Lowered(tags []string) []string {
	return sorted(strings.Split(strings.ToLower(strings.Join(tags, ";")), ";"))
}

// AllTags are the tags of the VM: its own, and the provider's default ones.
func (m *Model) AllTags() []string {
	if m.TagsAll != nil {
		return m.TagsAll
	}
	return m.Tags
}

// WithTags adds tags that are not there, in any case.
func WithTags(tags, more []string) []string {
	return append(slices.Clone(tags), WithoutTags(more, tags)...)
}

// WithoutTags leaves tags out, in any case.
func WithoutTags(tags, some []string) []string {
	return slices.DeleteFunc(slices.Clone(tags), func(tag string) bool {
		return slices.ContainsFunc(some, func(other string) bool { return strings.EqualFold(tag, other) })
	})
}

// WithOwnTags is what the server says of a VM, with the VM's own tags in tags: those less the default ones, which a
// state or a plan tells.
func WithOwnTags(server tftypes.Value, told ...tftypes.Value) tftypes.Value {
	tags := plan.At(server, "tags")
	if !tags.IsFullyKnown() || tags.IsNull() {
		return server
	}
	own := Texts(tags)
	for _, one := range told {
		if all, its := plan.At(one, "tags_all"), plan.At(one, "tags"); all.IsFullyKnown() && its.IsFullyKnown() {
			own = WithoutTags(own, WithoutTags(Texts(all), Texts(its)))
		}
	}
	if len(own) == 0 {
		return plan.Replace(server, "tags", tftypes.NewValue(tags.Type(), nil))
	}
	return plan.Replace(server, "tags", SetOf(own))
}
