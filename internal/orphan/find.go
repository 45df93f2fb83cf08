package orphan

import (
	"cmp"
	"context"
	"slices"
)

// Find looks. An error is one that leaves nothing to tell.
func (f *Finder) Find(ctx context.Context, options Options) (Report, error) {
	l := &look{Finder: f, options: options, free: map[int]bool{}}
	var err error
	if l.before, err = f.api.Resources(ctx); err != nil {
		return Report{}, err
	}
	for _, step := range []func(context.Context) error{l.listVolumes, l.survey, l.judgeVolumes, l.judgeGuests, l.judgeReferences} {
		if err := step(ctx); err != nil {
			return Report{}, err
		}
	}
	slices.SortFunc(l.report.Items, func(a, b Item) int {
		return cmp.Or(cmp.Compare(slices.Index(Kinds(), a.Kind), slices.Index(Kinds(), b.Kind)), cmp.Compare(a.VMID, b.VMID),
			cmp.Compare(a.Node, b.Node), cmp.Compare(a.ID, b.ID))
	})
	slices.Sort(l.report.Unchecked)
	l.report.Unchecked = slices.Compact(l.report.Unchecked)
	return l.report, ctx.Err()
}
