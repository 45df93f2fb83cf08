package act

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/auth"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
)

// FirstID is where third parties make guests whose id does not matter, out of the way of /cluster/nextid.
const FirstID = 990001

// action is one third party's act under way. The mutex is held throughout, but where a clean-up of PVE's waits.
type action struct {
	s      *engine.Engine
	w      *state.World
	order  thirdparty.Order
	ids    []int             // of the operation at hand
	params map[string]string // of the operation at hand
	made   int
}

// Now lets a third party act at once.
func Now(e *engine.Engine, order thirdparty.Order) (d thirdparty.Report, err error) {
	if err := order.Validate(); err != nil {
		return d, err
	}
	e.Do(func(*state.World) { d = Perform(e, order, fault.Operation{}, nil) })
	return d, nil
}

// Perform carries an order out before an operation and records what became of it.
func Perform(e *engine.Engine, order thirdparty.Order, op fault.Operation, params map[string]string) thirdparty.Report {
	v := &action{s: e, w: e.World, order: order, ids: op.VMIDs, params: params}
	if v.w.ThirdParties.Guests == nil {
		v.w.ThirdParties = state.ThirdParties{Guests: map[*state.Guest]bool{}, Volumes: map[*state.Volume]bool{},
			Files: map[string]bool{}}
	}
	d := thirdparty.Report{Order: order, Seq: op.Seq, About: v.subject(), Was: v.w.ExportThirdParties()}
	d.Had = v.config(d.About)
	guests, volumes := maps.Clone(v.w.Guests), maps.Clone(v.w.Volumes)
	err := Table()[order.Act](v)
	v.claim(guests, volumes)
	d.Done, d.Made, d.Is = err == nil, v.made, v.w.ExportThirdParties()
	d.Has = v.config(d.About)
	if err != nil {
		d.Why = perl.Message(err)
	}
	e.ThirdParties().Record(d)
	return d
}

// config is the configuration of a guest with what waits for its next start, nil if there is no such guest.
func (v *action) config(vmid int) map[string]string {
	if g := v.w.Guests[vmid]; g != nil {
		return g.NextConfig()
	}
	return nil
}

// claim marks what the act has made: guests, their volumes, and volumes of no guest. Its work on a guest of
// the client's (a copy on another node, a saved state) is the client's.
func (v *action) claim(guests map[int]*state.Guest, volumes state.Volumes) {
	before := map[*state.Guest]bool{}
	for _, g := range guests {
		before[g] = true
	}
	for _, g := range v.w.Guests {
		if !before[g] && v.made == g.VMID {
			v.w.ThirdParties.Guests[g] = true
		}
	}
	for key, volume := range v.w.Volumes {
		if volumes[key] == volume {
			continue
		}
		if g := v.w.Guests[volume.VMID]; g == nil || v.w.ThirdParties.Guests[g] || volume.Content == "backup" {
			v.w.ThirdParties.Volumes[volume] = true
		}
	}
}

// subject is the id of the guest that the act is about: the order's, the operation's, or the lowest of the client's; 0
// if none.
func (v *action) subject() int {
	if v.order.VMID != 0 {
		return v.order.VMID
	}
	for _, id := range slices.Backward(v.ids) { // a clone's new guest before its source
		if g := v.w.Guests[id]; g != nil && !v.w.ThirdParties.Guests[g] {
			return id
		}
	}
	for _, id := range slices.Sorted(maps.Keys(v.w.Guests)) {
		if !v.w.ThirdParties.Guests[v.w.Guests[id]] {
			return id
		}
	}
	return 0
}

// guest is the guest that the act is about. Its file lock must be free: the act is to happen now, not after a wait.
func (v *action) guest() (*state.Guest, error) {
	g := v.w.Guests[v.subject()]
	switch {
	case g == nil:
		return nil, perl.Die("there is no guest %d", v.subject())
	case g.Type != "qemu":
		return nil, perl.Die("guest %d is no virtual machine", g.VMID)
	case v.s.Locks[g.Node+":"+engine.GuestLock(g.VMID)] != nil:
		return nil, perl.Die("a process holds the file lock of guest %d", g.VMID)
	}
	return g, nil
}

// wanted is the id that the operation at hand is about to use, or 0.
func (v *action) wanted() int {
	if v.order.VMID != 0 {
		return v.order.VMID
	}
	if len(v.ids) > 0 {
		return v.ids[len(v.ids)-1]
	}
	return 0
}

// node is where the third party works: the order's node, the operation's, the guest's, or the first that is up.
func (v *action) node() string {
	for _, name := range []string{v.order.Node, v.params["node"]} {
		if n := v.w.Nodes[name]; n != nil && n.Online {
			return name
		}
	}
	if g := v.w.Guests[v.subject()]; g != nil {
		return g.Node
	}
	return engine.Home(v.w)
}

// free is an id of the third party's own.
func (v *action) free() int {
	id := FirstID
	for v.w.Guests[id] != nil {
		id++
	}
	v.made = id
	return id
}

// call asks the API for something, as an identity with all rights, and waits for the task. route is "METHOD
// /path" with the schema's templates.
func (v *action) call(route string, params map[string]string) error {
	method, template, _ := strings.Cut(route, " ")
	r := &engine.Request{
		W: v.w, Method: method, Template: template, Params: params, Engine: v.s, Synchronous: true,
		Auth: auth.Identity{ID: "thirdparty@pve", User: "thirdparty@pve", Unrestricted: true},
	}
	data, err := v.s.Handler(method, template)(r)
	if err != nil {
		return err
	}
	upid, _ := data.(string)
	if t := v.w.Tasks[upid]; t != nil && t.ExitStatus != "OK" && !strings.HasPrefix(t.ExitStatus, "WARNINGS") {
		return perl.Die("%s", t.ExitStatus)
	}
	return nil
}

// on is call for the guest's own path.
func (v *action) on(g *state.Guest, verb string, params map[string]string) error {
	method, rest, _ := strings.Cut(verb, " ")
	all := map[string]string{"node": g.Node, "vmid": strconv.Itoa(g.VMID)}
	maps.Copy(all, params)
	return v.call(method+" /nodes/{node}/qemu/{vmid}"+rest, all)
}
