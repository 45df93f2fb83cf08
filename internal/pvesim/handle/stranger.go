package handle

import (
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/stranger"
)

// strangersFirstID is where strangers make guests whose id does not matter, out of the way of /cluster/nextid.
const strangersFirstID = 990001

// visit is one stranger's act under way. The mutex is held throughout, but where a clean-up of PVE's waits.
type visit struct {
	s      *Server
	w      *state.World
	order  stranger.Order
	ids    []int             // of the operation at hand
	params map[string]string // of the operation at hand
	made   int
}

// Strangers are the orders in force and what became of them.
func (s *Server) Strangers() *stranger.Set { return &s.strangers }

// Visit lets a stranger act at once.
func (s *Server) Visit(order stranger.Order) (d stranger.Deed, err error) {
	if err := order.Validate(); err != nil {
		return d, err
	}
	s.Do(func(*state.World) { d = s.visit(order, fault.Operation{}, nil) })
	return d, nil
}

// visit carries an order out before an operation and records what became of it.
func (s *Server) visit(order stranger.Order, op fault.Operation, params map[string]string) stranger.Deed {
	v := &visit{s: s, w: s.world, order: order, ids: op.VMIDs, params: params}
	if v.w.Strange.Guests == nil {
		v.w.Strange = state.Strangers{Guests: map[*state.Guest]bool{}, Volumes: map[*state.Volume]bool{}, Files: map[string]bool{}}
	}
	d := stranger.Deed{Order: order, Seq: op.Seq, About: v.subject(), Was: v.w.StrangersExport()}
	guests, volumes := maps.Clone(v.w.Guests), maps.Clone(v.w.Volumes)
	err := acts()[order.Act](v)
	v.claim(guests, volumes)
	d.Done, d.Made, d.Is = err == nil, v.made, v.w.StrangersExport()
	if err != nil {
		d.Why = text(err)
	}
	s.strangers.Record(d)
	return d
}

// claim marks what the act has made: guests, their volumes, and volumes of no guest. What it made for a guest of the client's (a
// copy on another node, a saved state) is the client's.
func (v *visit) claim(guests map[int]*state.Guest, volumes state.Volumes) {
	before := map[*state.Guest]bool{}
	for _, g := range guests {
		before[g] = true
	}
	for _, g := range v.w.Guests {
		if !before[g] && v.made == g.VMID {
			v.w.Strange.Guests[g] = true
		}
	}
	for key, volume := range v.w.Volumes {
		if volumes[key] == volume {
			continue
		}
		if g := v.w.Guests[volume.VMID]; g == nil || v.w.Strange.Guests[g] || volume.Content == "backup" {
			v.w.Strange.Volumes[volume] = true
		}
	}
}

// subject is the id of the guest that the act is about: the order's, the operation's, or the lowest of the client's; 0 if none.
func (v *visit) subject() int {
	if v.order.VMID != 0 {
		return v.order.VMID
	}
	for _, id := range slices.Backward(v.ids) { // a clone's new guest before its source
		if g := v.w.Guests[id]; g != nil && !v.w.Strange.Guests[g] {
			return id
		}
	}
	for _, id := range slices.Sorted(maps.Keys(v.w.Guests)) {
		if !v.w.Strange.Guests[v.w.Guests[id]] {
			return id
		}
	}
	return 0
}

// guest is the guest that the act is about. Its file lock must be free: the act is to happen now, not after a wait.
func (v *visit) guest() (*state.Guest, error) {
	g := v.w.Guests[v.subject()]
	switch {
	case g == nil:
		return nil, Die("there is no guest %d", v.subject())
	case g.Type != "qemu":
		return nil, Die("guest %d is no virtual machine", g.VMID)
	case v.s.locks[g.Node+":"+GuestLock(g.VMID)] != nil:
		return nil, Die("a process holds the file lock of guest %d", g.VMID)
	}
	return g, nil
}

// wanted is the id that the operation at hand is about to use, or 0.
func (v *visit) wanted() int {
	if v.order.VMID != 0 {
		return v.order.VMID
	}
	if len(v.ids) > 0 {
		return v.ids[len(v.ids)-1]
	}
	return 0
}

// node is where the stranger works: the order's node, the operation's, the guest's, or the first that is up.
func (v *visit) node() string {
	for _, name := range []string{v.order.Node, v.params["node"]} {
		if n := v.w.Nodes[name]; n != nil && n.Online {
			return name
		}
	}
	if g := v.w.Guests[v.subject()]; g != nil {
		return g.Node
	}
	return home(v.w)
}

// free is an id of his own.
func (v *visit) free() int {
	id := strangersFirstID
	for v.w.Guests[id] != nil {
		id++
	}
	v.made = id
	return id
}

// call asks the API for something, as somebody to whom nothing is forbidden, and waits for the task. route is "METHOD /path" with
// the schema's templates.
func (v *visit) call(route string, params map[string]string) error {
	method, template, _ := strings.Cut(route, " ")
	r := &Request{
		W: v.w, Method: method, Template: template, Params: params, Server: v.s, synchronous: true,
		Auth: Auth{ID: "stranger@pve", User: "stranger@pve", almighty: true},
	}
	data, err := v.s.routes[route](r)
	if err != nil {
		return err
	}
	upid, _ := data.(string)
	if t := v.w.Tasks[upid]; t != nil && t.ExitStatus != "OK" && !strings.HasPrefix(t.ExitStatus, "WARNINGS") {
		return Die("%s", t.ExitStatus)
	}
	return nil
}

// on is call for the guest's own path.
func (v *visit) on(g *state.Guest, verb string, params map[string]string) error {
	method, rest, _ := strings.Cut(verb, " ")
	all := map[string]string{"node": g.Node, "vmid": itoa(g.VMID)}
	maps.Copy(all, params)
	return v.call(method+" /nodes/{node}/qemu/{vmid}"+rest, all)
}
