package create

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestNothingIsDoubledInSilence: a run is killed between its commit and Terraform's state. The next apply cannot tell
// its VM from one in another state: it touches neither, and says which VM it is and how it is taken over.
func TestNothingIsDoubledInSilence(t *testing.T) {
	for _, k := range killedWays(t) {
		if k.process == elsewhere { // no process is named any more
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			b := newBench(t, token)
			b.backedUp(nil)
			made, err := b.Create(t.Context(), k.of())
			if err != nil {
				t.Fatal(err)
			}
			was := b.vms()[made.Guest.VMID]
			b.sim.Advance(time.Minute)
			next := creatorOf(t, b.sim, token)
			again, err := next.Create(t.Context(), k.of())
			said := fmt.Sprint(err)
			for _, w := range again.Warnings {
				said += w.Summary + " " + w.Detail
			}
			if k.fixed == (err == nil) || !strings.Contains(said, fmt.Sprintf("`terraform import ADDRESS %d`", made.Guest.VMID)) ||
				!strings.Contains(said, "a run that was killed") {
				t.Errorf("the next apply says %s", said)
			}
			if now := b.vms()[made.Guest.VMID]; !maps.Equal(was, now) {
				t.Errorf("the VM was\n%v\nand is\n%v", was, now)
			}
			if want := map[bool]int{true: 1, false: 2}[k.fixed]; len(b.vms()) != want {
				t.Errorf("%d VMs", len(b.vms()))
			}
		})
	}
}

// TestALookalikeIsOurOwnAndNew: a finished VM is named as one that a killed run may have left only if it is all that the
// create would make it, and if this identity made it in the last hour.
func TestALookalikeIsOurOwnAndNew(t *testing.T) {
	set := func(option, value string) func(*bench) {
		return func(b *bench) {
			b.change(func(w *state.World) {
				g := w.Guests[100]
				g.Config = maps.Clone(g.Config)
				g.Config[option] = value
			})
		}
	}
	more := func(b *bench) { b.sim.Advance(2 * time.Hour) }
	for name, c := range map[string]struct {
		who     func(*pve.Config, pvesim.Credentials)
		happens func(*bench)
		named   bool
	}{
		"as it was made":             {token, func(*bench) {}, true},
		"with an option more":        {token, set("cores", "4"), true},
		"with another bus":           {token, set("scsihw", "megasas"), false},
		"with another name":          {token, set("name", "db"), false},
		"of two hours ago":           {token, more, false},
		"of another identity":        {ticket, func(*bench) {}, false},
		"with a mark of any release": {token, set("description", "Terraform is creating this VM. Do not touch it."), false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, c.who)
			r := named(onZFS(), "web")
			r.Spec.SCSIHW = to("virtio-scsi-pci")
			if _, err := b.Create(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			b.sim.Advance(time.Minute)
			c.happens(&b)
			next := creatorOf(t, b.sim, token)
			for n := range 2 { // the second create finds the VM in memory
				again, err := next.Create(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				if says := fmt.Sprint(again.Warnings); strings.Contains(says, "VM 100 (web) on node pve1 may be this one") != c.named {
					t.Errorf("create %d warns %s", n, says)
				}
			}
		})
	}
}

// TestACandidateThatCannotBeRead: a VM of the wanted name may be what a killed run has left. If it cannot be read, the
// create says so and makes its own; "could not look" is never "none".
func TestACandidateThatCannotBeRead(t *testing.T) {
	for _, c := range []struct {
		fault fault.Rule
		want  int
	}{
		{fault.Rule{Status: 595, Reason: "No route to host", Times: -1}, 1},
		{fault.Rule{Status: 500, Reason: "Configuration file 'nodes/pve1/qemu-server/8000.conf' does not exist", Times: -1}, 0},
	} {
		b := newBench(t, token)
		c.fault.Phase = fault.Before
		c.fault.Match = fault.Match{Path: "/nodes/{node}/qemu/{vmid}/config", VMID: 8000}
		b.sim.SetFaults([]fault.Rule{c.fault})
		name := ""
		b.change(func(w *state.World) { name = w.Guests[8000].Config["name"] })
		created, err := b.Create(t.Context(), named(onZFS(), name))
		if err != nil || len(created.Warnings) != c.want || c.want > 0 && !strings.Contains(fmt.Sprint(created.Warnings),
			"VM 8000 ("+name+") on node pve1 could not be looked at") {
			t.Errorf("%s: %v; %v", c.fault.Reason, err, created.Warnings)
		}
	}
}

// TestAMarkThatDoesNotCount: a run was killed, and its mark does not count any more: a node has joined the cluster since,
// or the description was edited. The next create makes another VM, and not in silence. A copy of a mark says nothing.
func TestAMarkThatDoesNotCount(t *testing.T) {
	for name, c := range map[string]struct {
		cluster string
		vmid    int
		edit    func(string) string
		warns   bool
	}{
		"of the cluster before a node joined": {cluster: "pve1", vmid: 900, warns: true},
		"edited":                              {cluster: "pve1,pve2", vmid: 900, edit: func(s string) string { return s + "\nplease keep" }, warns: true},
		"copied":                              {cluster: "pve1,pve2", vmid: 901},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, token)
			r := named(onZFS(), "web")
			mark := b.markOf(c.vmid, r, elsewhere)
			mark.Cluster = c.cluster
			description := b.guests.Sign(mark).String()
			if c.edit != nil {
				description = c.edit(description)
			}
			b.change(func(w *state.World) {
				w.Guests[900] = &state.Guest{VMID: 900, Type: "qemu", Node: "pve1",
					Config: map[string]string{"name": "web", "memory": "512", "description": description}}
			})
			b.sim.Advance(time.Minute)
			was := b.vms()[900]
			for n := range 2 { // the second create finds the VM in memory
				made, err := b.Create(t.Context(), r)
				if err != nil || made.Guest.VMID == 900 {
					t.Fatalf("%+v, %v", made.Guest, err)
				}
				if says := fmt.Sprint(made.Warnings); strings.Contains(says, "`terraform import ADDRESS 900`") != c.warns {
					t.Errorf("create %d warns %s", n, says)
				}
			}
			if now := b.vms()[900]; !maps.Equal(was, now) {
				t.Errorf("the VM was\n%v\nand is\n%v", was, now)
			}
		})
	}
}

// TestCreateThatDoesNotGetIntoItsPool: PVE has made the disks, and then does not get the lock of user.cfg to put the VM
// into its pool. A create removes the configuration only, and a clone to another node the disks only. Neither stays
// behind unnamed, and the create goes on once the lock is free.
func TestCreateThatDoesNotGetIntoItsPool(t *testing.T) {
	full := ofTemplate()
	away := full
	away.Node = "pve2"
	restored := Request{Node: "pve1", Restore: &guest.Restore{Archive: theArchive}}
	for name, r := range map[string]Request{"new": onZFS(), "clone": full, "clone to another node": away, "restore": restored} {
		for _, vmid := range []int{0, 150} {
			t.Run(fmt.Sprint(name, " ", vmid), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
					b.backedUp(nil)
					b.change(func(w *state.World) {
						if r.Node == "pve2" {
							w.Guests[9000].Config = map[string]string{"name": "tpl", "template": "1", "scsi0": "none,media=cdrom"}
						}
					})
					pvesim.HoldUserConfig(b.sim, 20*time.Second)
					r.VMID, r.Pool = vmid, "web"
					created, err := b.Create(t.Context(), r)
					if err != nil || created.Doubt || len(created.Left) > 0 {
						t.Errorf("the lock is free again: %v, left %v, %v", err, created.Left, created.Warnings)
					}
					for id := range b.vms() {
						if id != created.Guest.VMID && id < 1000 {
							t.Errorf("VM %d stands", id)
						}
					}
					for _, id := range []int{100, 101, 102, 150} {
						for volume := range b.volumesOf(id) {
							if !strings.Contains(fmt.Sprint(b.vms()[created.Guest.VMID]), volume) {
								t.Errorf("volume %s is left", volume)
							}
						}
					}
				})
			})
		}
	}
}

// TestDisksOfACreateThatNeverGetsIntoItsPool: the undo needs the pool as well, and does not get the lock of user.cfg
// either. The disks are named, and no VM is there to be kept.
func TestDisksOfACreateThatNeverGetsIntoItsPool(t *testing.T) {
	for _, failure := range []OnFailure{0, Keep} {
		synctest.Test(t, func(t *testing.T) {
			b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
			pvesim.HoldUserConfig(b.sim, 24*time.Hour)
			r := onZFS()
			r.Pool, r.OnFailure = "web", failure
			created, err := b.Create(t.Context(), r)
			for volume := range b.volumesOf(100) {
				if !strings.Contains(fmt.Sprint(created.Left), volume) {
					t.Errorf("%v: volume %s is not named: %v, %v", failure, volume, err, created)
				}
			}
		})
	}
}

// TestUndoThatDoesNotGetTheLockOfUserConfig: a start fails, and the destroy of the undo frees the disks and then does
// not get the lock of user.cfg. What is left of the VM is its own: it goes once the lock is free, or is named.
func TestUndoThatDoesNotGetTheLockOfUserConfig(t *testing.T) {
	for name, who := range map[string]func(*pve.Config, pvesim.Credentials){"token": token, "ticket": ticket} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, who)
				b.sim.SetFaults([]fault.Rule{startRefused})
				pvesim.HoldUserConfig(b.sim, 20*time.Second)
				created, err := b.Create(t.Context(), twoDisks())
				if said := fmt.Sprint(created.Warnings, created.Left, err); strings.Contains(said, "another user") {
					t.Errorf("there is no other user: %s", said)
				}
				vm, named := b.vms()[150], len(created.Left) > 0 && created.Guest.VMID == 150
				if (vm != nil) != (name == "token") || named != (vm != nil) {
					t.Errorf("there is %v, and named are %v: %v", vm, created.Left, created.Warnings)
				}
			})
		})
	}
}

// poolOnly leaves the token its privileges on guests by the pool alone.
func poolOnly(b bench) {
	b.change(func(w *state.World) {
		w.ACL = slices.DeleteFunc(w.ACL, func(e state.ACLEntry) bool {
			return e.Path == "/" && strings.HasPrefix(e.Subject, "terraform@pve")
		})
		for _, who := range []string{"terraform@pve", "terraform@pve!prov"} {
			for _, path := range []string{"/storage", "/sdn", "/mapping", "/pool/web"} {
				w.ACL = append(w.ACL, state.ACLEntry{Path: path, Subject: who, Role: "TerraformProvider", Propagate: true})
			}
			w.ACL = append(w.ACL, state.ACLEntry{Path: "/nodes", Subject: who, Role: "PVEAuditor", Propagate: true})
		}
	})
}

// TestHiddenCloneElsewhereThatDoesNotGetIntoItsPool: an identity has its privileges on guests by its pool alone. A clone
// to another node does not get the lock of user.cfg. Its configuration stands there already, and PVE removes it on the
// source's node only, so the identity does not see it. It is named, stays in state, and no other id is tried.
func TestHiddenCloneElsewhereThatDoesNotGetIntoItsPool(t *testing.T) {
	for _, vmid := range []int{0, 150} {
		for node, stands := range map[string]bool{"pve1": false, "pve2": true} {
			t.Run(fmt.Sprint(vmid, node), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
					b.change(func(w *state.World) {
						w.Guests[9000].Config = map[string]string{"name": "tpl", "template": "1", "scsi0": "none,media=cdrom"}
						w.Pools["web"].Guests = append(w.Pools["web"].Guests, 9000)
					})
					poolOnly(b)
					pvesim.HoldUserConfig(b.sim, 12*time.Second)
					r := ofTemplate()
					r.Node, r.VMID, r.Pool = node, vmid, "web"
					created, err := b.Create(t.Context(), r)
					named := fmt.Sprint(created.Left)
					if (err != nil) != stands || (len(created.Left) > 0) != stands {
						t.Errorf("left %v: %v", created.Left, err)
					}
					for id := range b.vms() {
						if isIt := created.Guest.VMID == id; id < 1000 && (!isIt || stands && !strings.Contains(named, fmt.Sprintf("VM %d", id))) {
							t.Errorf("VM %d stands, and the create has VM %d and names %s", id, created.Guest.VMID, named)
						}
					}
				})
			})
		}
	}
}

// TestUndoOfAVMThatHasLeftThePool: an identity has its privileges on guests by its pool alone. An administrator moves the
// new VM to another pool while its create starts it, and the start fails. The undo does not see it any more: it is
// named, and stays in state.
func TestUndoOfAVMThatHasLeftThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
		poolOnly(b)
		go func() { // while the request to start is delayed
			time.Sleep(4 * time.Second)
			b.change(func(w *state.World) {
				w.Pools["web"].Guests = slices.DeleteFunc(w.Pools["web"].Guests, func(id int) bool { return id == 150 })
				w.Pools["other"] = &state.Pool{ID: "other", Guests: []int{150}}
			})
		}()
		b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost,
			Path: "/nodes/{node}/qemu/{vmid}/status/start"}, Phase: fault.Before, Reason: "no such bridge", Times: -1,
			DelayMS: 30000}})
		r := onZFS()
		r.VMID, r.Start, r.Pool = 150, true, "web"
		created, err := b.Create(t.Context(), r)
		isNamed := len(created.Left) == 1 && created.Left[0].Kind == "guest" && created.Left[0].ID == "150"
		if b.vms()[150] == nil || !isNamed || created.Guest.VMID != 150 {
			t.Errorf("VM 150 stands: %v, left %v, %v", err, created.Left, created.Warnings)
		}
	})
}
