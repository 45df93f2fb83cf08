package plan_test

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// writesSince are the requests since the last ResetOps that may change something. A login is none.
func writesSince(w *rig.World) (all []string) {
	for _, op := range w.Sim.Ops() {
		if op.Method != http.MethodGet && op.Path != "/access/ticket" {
			all = append(all, op.Method+" "+op.Path)
		}
	}
	return all
}

// bait puts VMs into a cluster that a create seems to have left: each way to come by a mark, off and running.
func bait(w *rig.World, name string) (marks int) {
	cred := w.Sim.Credentials()
	for _, user := range []string{"terraform@pve!prov", "root@pam"} {
		for _, running := range []bool{false, true} {
			for _, genuine := range []bool{false, true} {
				vmid := 700 + marks
				marks++
				mark := ownership.Mark{Cluster: "pve1,pve2", VMID: vmid, Saga: fmt.Sprintf("%016x", vmid), Key: guest.NoKey, User: user,
					By: "qmcreate", Process: "elsewhere 0000000000000000 pid:[1] 1 1", Signature: strings.Repeat("0", 64)}.String()
				if genuine {
					mark = rig.Resign(cred, mark, func(*ownership.Mark) {})
				}
				w.Change(func(world *state.World) {
					g := &state.Guest{VMID: vmid, Type: "qemu", Node: "pve1", Config: map[string]string{"memory": "512", "description": mark,
						"smbios1": fmt.Sprintf("uuid=11111111-2222-3333-4444-%012d", vmid)}}
					if name != "" {
						g.Config["name"] = name
					}
					if running {
						g.Running = &state.Running{QMPStatus: "running", PID: vmid, StartedAt: time.Unix(1, 0)}
					}
					world.Guests[vmid] = g
				})
			}
		}
	}
	return marks
}

// TestLawReadOnly: a plan, a refresh and a data source send nothing that changes anything, whatever lies about in the
// cluster. The rows are all examples, each with one kind of credentials in its turn, among VMs that bear marks.
func TestLawReadOnly(t *testing.T) {
	t.Parallel()
	examples, rows := rig.Examples(t), 0
	var made atomic.Int64
	t.Cleanup(func() {
		if t.Logf("%d of them also with their objects in state", made.Load()); made.Load() < 20 {
			t.Error("too few could be made")
		}
	})
	for _, name := range slices.Sorted(maps.Keys(examples)) {
		config, identities := examples[name], rig.Identities()
		if !strings.HasPrefix(name, "resources/") {
			identities = identities[rows%len(identities):][:1]
		}
		for _, id := range identities {
			rows++
			t.Run(name+"/"+string(id), func(t *testing.T) {
				t.Parallel()
				w := rig.WorldOf(t, config)
				bait(w, "web")
				bait(w, "")
				s := w.Session(t, id, config)
				before := w.Sim.Snapshot()
				w.Sim.ResetOps()
				if _, err := s.Plan(t.Context()); err != nil && !strings.Contains(config, `"esxi:`) {
					t.Errorf("the plan: %v", err)
				}
				rig.Must(t, s.Refresh(t.Context()))
				if writes := writesSince(w); len(writes) > 0 {
					t.Errorf("a plan and a refresh have sent %v", writes)
				}
				if len(w.Sim.Ops()) == 0 && !strings.HasPrefix(name, "functions/") && name != "provider" {
					t.Error("nothing was asked at all")
				}
				if lines := rig.SnapshotDiff(before, w.Sim.Snapshot()); len(lines) > 0 {
					t.Errorf("a plan and a refresh have changed %v", lines)
				}
				if strings.HasPrefix(name, "resources/") && s.Converge(t.Context()) == nil {
					made.Add(1)
					onlyReads(t, w, s)
				}
			})
		}
	}
	t.Logf("%d examples with credentials", rows)
}

// onlyReads plans and refreshes the objects in state.
func onlyReads(t *testing.T, w *rig.World, s *terraformtest.Session) {
	t.Helper()
	before := w.Sim.Snapshot()
	w.Sim.ResetOps()
	rig.Must(t, s.Refresh(t.Context()))
	if _, err := s.Plan(t.Context()); err != nil {
		t.Errorf("the plan of the objects in state: %v", err)
	}
	if writes := writesSince(w); len(writes) > 0 || !bytes.Equal(before, w.Sim.Snapshot()) {
		t.Errorf("a refresh and a plan of the objects in state have sent %v", writes)
	}
}

// TestLawReadOnlyImport: an import and the plan after it change nothing, of a VM that was committed and of one that bears
// a mark; the import of the latter takes the time to see whether its create lives.
func TestLawReadOnlyImport(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t, pvesim.Options{})
	marked := bait(w, "web")
	for vmid := 700; vmid < 700+marked; vmid++ {
		s := w.Session(t, rig.TokenNoSSH, "resource \"proxmox_vm\" \"x\" {\n  node = \"pve1\"\n}\n")
		theirs := w.Sim.Snapshot()
		w.Sim.ResetOps()
		rig.Must(t, s.Import(t.Context(), "proxmox_vm.x", fmt.Sprint(vmid)))
		if _, err := s.Plan(t.Context()); err != nil {
			t.Error(err)
		}
		if writes := writesSince(w); len(writes) > 0 || !bytes.Equal(theirs, w.Sim.Snapshot()) {
			t.Errorf("VM %d: the import and the plan have sent %v", vmid, writes)
		}
	}
	s := w.Session(t, rig.TokenNoSSH, rig.VMBlock("node = \"pve1\"\nname = \"done\"\n"))
	rig.Must(t, s.Converge(t.Context()))
	vmid := terraformtest.ShowValue(s.Attr(rig.VMAddress, "vmid"))
	s.Forget(rig.VMAddress)
	before := w.Sim.Snapshot()
	w.Sim.ResetOps()
	rig.Must(t, s.Import(t.Context(), rig.VMAddress, vmid))
	if writes := writesSince(w); len(writes) > 0 || !bytes.Equal(before, w.Sim.Snapshot()) {
		t.Errorf("the import of a VM that was committed has sent %v", writes)
	}
	onlyReads(t, w, s)
}
