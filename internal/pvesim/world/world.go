// Package world draws the cluster in which a test runs.
//
// Clusters differ in ways that a test written for one of them never meets: rights below /vms, a second name of a
// storage, clocks that differ, a task log that has been rotated. Each of these is an Axis, a declaration. A World is a
// set of them. The same seed draws the same world.
package world

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
)

// Axis is one way in which clusters differ.
type Axis struct {
	Name  string
	Sets  string // in the declaration of a world, or the actor that it starts
	Means string // one sentence
	// Declare changes a world before the cluster starts.
	Declare func(*state.World)
	// Arrange changes it once the VM at hand is there, if it is there before the operation. It may draw.
	Arrange func(w *state.World, vmid int, draw *rand.Rand)
	// Acts are what a background actor does, one after the other at a moment that is drawn.
	Acts []thirdparty.Order
	// Faults go wrong at moments that are drawn.
	Faults []fault.Rule
	// Imported: the VM at hand came into state by an import, and no apply has followed.
	Imported bool
	// Replaced: the VM at hand is another cluster's.
	Replaced bool
}

// World is a set of axes.
type World struct {
	Seed uint64
	Axes []Axis
}

// Axes are all axes.
func Axes() []Axis {
	return slices.Concat(accessAxes(), storageAxes(), useAxes(), nodeAxes(), guestAxes(), textAxes())
}

// Draw draws a world with n axes. The same seed and number draw the same world.
func Draw(seed uint64, n int) World {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	all := Axes()
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return World{Seed: seed, Axes: all[:max(0, min(n, len(all)))]}
}

// Of is the world with the axes of these names. It panics on a name that there is not: that is a broken test.
func Of(names ...string) World {
	var w World
	for _, name := range names {
		n := slices.IndexFunc(Axes(), func(a Axis) bool { return a.Name == name })
		if n < 0 {
			panic("world: no axis is called " + name)
		}
		w.Axes = append(w.Axes, Axes()[n])
	}
	return w
}

// String names the seed and the axes.
func (w World) String() string {
	names := make([]string, 0, len(w.Axes))
	for _, a := range w.Axes {
		names = append(names, a.Name)
	}
	return fmt.Sprintf("world %d (%s)", w.Seed, strings.Join(names, ", "))
}

// Cluster is the default cluster of two nodes with the axes' declarations.
func (w World) Cluster() *state.World {
	cluster := state.Default([]string{"pve1", "pve2"})
	for _, a := range w.Axes {
		if a.Declare != nil {
			a.Declare(cluster)
		}
	}
	return cluster
}

// Arrange changes a cluster in which the VM at hand is there. Its mutex is held.
func (w World) Arrange(cluster *state.World, vmid int) { w.arrange(cluster, vmid, false) }

// Replace puts another cluster's VM in the place of the one at hand, if an axis says so.
func (w World) Replace(cluster *state.World, vmid int) { w.arrange(cluster, vmid, true) }

func (w World) arrange(cluster *state.World, vmid int, replaced bool) {
	r := rand.New(rand.NewPCG(w.Seed, uint64(vmid)))
	for _, a := range w.Axes {
		if a.Arrange != nil && a.Replaced == replaced && cluster.Guests[vmid] != nil {
			a.Arrange(cluster, vmid, r)
		}
	}
}

// Imported reports whether the VM at hand came into state by an import.
func (w World) Imported() bool {
	return slices.ContainsFunc(w.Axes, func(a Axis) bool { return a.Imported })
}

// Replaced reports whether the VM at hand is another cluster's.
func (w World) Replaced() bool {
	return slices.ContainsFunc(w.Axes, func(a Axis) bool { return a.Replaced })
}

// Mark marks the volumes that the axes have declared as other parties', those under the id of the VM at hand, too. Its
// mutex is held.
func (w World) Mark(cluster *state.World) {
	for _, v := range cluster.Volumes {
		if strings.HasPrefix(v.Data, foreign) {
			cluster.ThirdParties.Volumes[v] = true
		}
	}
}

// foreign begins the contents of the volumes that axes declare.
const foreign = "another party's data"

// Orders are what the background actors do to a VM, each before one of the first so many operations. The moments follow
// from the world's seed and from draw.
func (w World) Orders(draw uint64, vmid, operations int) (orders []thirdparty.Order) {
	r := rand.New(rand.NewPCG(w.Seed, draw))
	for _, a := range w.Axes {
		at := 1 + r.IntN(max(1, operations))
		for _, o := range a.Acts {
			o.VMID, o.Before.Seq = vmid, at
			orders = append(orders, o)
		}
	}
	return orders
}

// Faults are what goes wrong, each at one of the first three operations that it could hit.
func (w World) Faults(draw uint64) (rules []fault.Rule) {
	r := rand.New(rand.NewPCG(w.Seed, draw+1))
	for _, a := range w.Axes {
		for _, rule := range a.Faults {
			rule.Match.Nth = 1 + r.IntN(3)
			rules = append(rules, rule)
		}
	}
	return rules
}
