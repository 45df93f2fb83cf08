package tfvm

import (
	"context"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfplan"
)

// withTagStyle is v with the datacenter's idea of tags. By PVE's default "Web" and "web" are one, and so they are for rules;
// only where two lists differ in nothing but case the server is asked, once.
func (r *Resource) withTagStyle(ctx context.Context, v values, was, is []string) values {
	if slices.Equal(sorted(was), sorted(is)) || !slices.Equal(lowered(was), lowered(is)) || !r.Session.Known() {
		return v
	}
	if exact, err := r.Session.API.TagsAreCaseSensitive(ctx); err != nil || !exact {
		return v
	}
	all := rules()
	all["tags"] = tfplan.Rule{Same: sameSet(verbatim)}
	v.shape = tfplan.NewShape(ctx, v.schema, all)
	return v
}

// useTagStyle plans with it.
func (p *planning) useTagStyle(ctx context.Context) {
	var configured []string
	if tags := p.config.at("tags"); tags.IsFullyKnown() {
		configured = texts(tags)
	}
	p.values = p.r.withTagStyle(ctx, p.values, p.prior.Tags, configured)
}

func sorted(tags []string) []string {
	all := slices.Clone(tags)
	slices.Sort(all)
	return slices.Compact(all)
}

// lowered is a list of tags as PVE has it by default: lower case, each once, sorted. An element may hold several.
func lowered(tags []string) []string {
	return sorted(strings.Split(strings.ToLower(strings.Join(tags, ";")), ";"))
}
