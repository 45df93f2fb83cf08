package model

import (
	"context"
	"slices"
	"strings"

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
