package contention_test

import (
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/world"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// axesSweep says how much of the sweep over drawn worlds is played.
type axesSweep struct {
	first, last uint64 // seeds of worlds
	scenes      int    // of each world
	share       uint32 // one cell in so many
}

// axesShare is the part of the sweep that a run plays: a few cells of a few worlds; with AXES=1-16 those worlds of the whole.
func axesShare(t *testing.T) axesSweep {
	t.Helper()
	whole := axesSweep{first: 1, last: axesWorlds, scenes: 6, share: 10}
	text := os.Getenv("AXES")
	switch from, to, isRange := strings.Cut(text, "-"); {
	case share.IsWhole():
	case text == "":
		return axesSweep{first: 1, last: 4, scenes: 2, share: 150}
	case isRange:
		var err, errTo error
		whole.first, err = strconv.ParseUint(from, 10, 32)
		whole.last, errTo = strconv.ParseUint(to, 10, 32)
		if err != nil || errTo != nil {
			t.Fatalf("AXES is %q, not a range of worlds", text)
		}
	default:
		t.Fatalf("AXES is %q, not a range of worlds", text)
	}
	return whole
}

// axesWorlds is how many worlds the whole sweep draws.
const axesWorlds = 72

// drawnScenes are the scenes of a world, each with an identity that it needs or that is drawn.
func drawnScenes(seed uint64, n int) (list []scene, ids []rig.Identity) {
	all := scenes()
	slices.SortStableFunc(all, func(a, b scene) int { return int(int64(drawnOf(seed, a.name)) - int64(drawnOf(seed, b.name))) })
	for _, sc := range all[:n] {
		id := rig.Identities()[drawnOf(seed, sc.name, "identity")%uint32(len(rig.Identities()))]
		switch {
		case sc.ticket:
			id = rig.RootTicket
		case sc.ssh:
			id = rig.TokenSSH
		}
		list, ids = append(list, sc), append(ids, id)
	}
	return list, ids
}

// drawnOf is a number that depends on nothing but its arguments.
func drawnOf(seed uint64, texts ...any) uint32 {
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, append([]any{seed, " "}, texts...)...) // never fails
	return h.Sum32()
}

// TestAxesThirdParty plays cells of TestAdversary in worlds that are drawn from the axes of package world, while the background
// actors of these worlds act, too. No other party's object is changed, and each of ours that is left is named.
//
// AXES=1-16 plays the worlds of these seeds.
func TestAxesThirdParty(t *testing.T) {
	t.Parallel()
	started, sweep := time.Now(), axesShare(t)
	counts := &adversaryCounts{cells: map[string]int{}}
	var mu sync.Mutex
	refused, worlds := 0, map[uint64]bool{}
	t.Run("worlds", func(t *testing.T) {
		for seed := sweep.first; seed <= sweep.last; seed++ {
			drawn := world.Draw(seed, 1+int(seed%5))
			list, ids := drawnScenes(seed, sweep.scenes)
			for n, sc := range list {
				id := ids[n]
				t.Run(fmt.Sprintf("%d, %s, %s", seed, sc.name, id), func(t *testing.T) {
					t.Parallel()
					b, err := openAdversaryBench(t, id, sc, &drawn)
					if err != nil {
						t.Logf("%s: %v", drawn, err)
						mu.Lock()
						defer mu.Unlock()
						refused++
						return
					}
					for m, c := range b.cells(t, strconv.FormatUint(seed, 10), sweep.share) {
						b.draw = uint64(m)
						a, effective := b.play(t, c)
						counts.add(sc.name, string(id), c.intervention.name, effective)
						for _, axis := range drawn.Axes {
							counts.axis(axis.Name, effective)
						}
						if len(a.wrong) > 0 {
							t.Errorf("%s, %s, %s: %s %s: %s\n%s", drawn, sc.name, id, c.intervention.name, c.at, strings.Join(a.wrong, "\n"),
								a.writes()+a.said())
						}
						if effective {
							mu.Lock()
							worlds[seed] = true
							mu.Unlock()
						}
					}
				})
			}
		}
	})
	counts.print(t)
	t.Logf("worlds %d to %d, one cell in %d: %d effective of %d in %d worlds; %d scenes were refused before they began; %s", sweep.first,
		sweep.last, sweep.share, counts.effective, counts.played, len(worlds), refused, time.Since(started).Round(time.Second))
	if share.IsWhole() && !share.IsPicked() && (counts.effective < 10_000 || len(worlds) < 60) {
		t.Error("want at least 10,000 effective cells in at least 60 worlds")
	}
}

// axis counts a case for an axis of its world.
func (n *adversaryCounts) axis(name string, effective bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if effective {
		n.cells["axis     "+name]++
	}
}
