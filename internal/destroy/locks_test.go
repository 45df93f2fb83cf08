package destroy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
)

// TestLocks: a live task's lock is waited for; a dead one's is taken away by an identity that may, if it is one of
// those under which the VM is still whole; any other is an error that says what to do, and nothing is touched.
func TestLocks(t *testing.T) {
	const ours = "terraform@pve!prov"
	for name, c := range map[string]struct {
		auth    func(*pve.Config, pvesim.Credentials)
		shell   bool
		happens func(*rig)
		want    string // in the error, "" for a success
		said    string // in a warning
	}{
		"a backup at work":      {asToken, false, func(r *rig) { r.sim.HoldLock(300, "backup", time.Minute, "root@pam") }, "", ""},
		"a dead backup, root":   {asRoot, false, func(r *rig) { r.sim.StaleLock(300, "backup", "root@pam") }, "", "The lock (backup) of VM 300 was taken away"},
		"a dead backup, SSH":    {asToken, true, func(r *rig) { r.sim.StaleLock(300, "backup", "root@pam") }, "", "The lock (backup) of VM 300 was taken away"},
		"a dead backup, token":  {asToken, false, func(r *rig) { r.sim.StaleLock(300, "backup", "root@pam") }, "`qm unlock 300`", ""},
		"a dead snapshot, root": {asRoot, false, func(r *rig) { r.sim.StaleLock(300, "snapshot", "root@pam") }, "", "The lock (snapshot) of VM 300 was taken away"},
		"by hand":               {asRoot, false, func(r *rig) { r.change(func(w *state.World) { w.Guests[300].SetLock("backup", "state") }) }, "none that died is known", ""},
		"others are not seen": {asToken, true, func(r *rig) {
			r.withoutSysAudit()
			r.sim.StaleLock(300, "backup", ours)
		}, "Sys.Audit", ""},
		"suspended": {asToken, false, func(r *rig) { r.change(func(w *state.World) { w.Guests[300].SetLock("suspended", "state") }) }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.auth)
			ref := r.vm(300)
			shell := &shellRecord{r: r}
			if c.shell {
				r.useShell(shell)
			}
			c.happens(r)
			_, warnings, err := r.s.Delete(t.Context(), Request{Ref: ref})
			is, kept := r.has(300, contested)
			if said := fmt.Sprint(warnings); !strings.Contains(said, c.said) || c.said == "" && len(warnings) > 0 {
				t.Errorf("said %s", said)
			}
			if c.want == "" {
				if err != nil || is || kept {
					t.Errorf("there %t, %t: %v", is, kept, err)
				}
				return
			}
			var locked *request.LockedError
			if !errors.As(err, &locked) || !strings.Contains(err.Error(), c.want) || !is || !kept || len(shell.calls) > 0 {
				t.Errorf("there %t, %t, SSH %v: %v", is, kept, shell.calls, err)
			}
			if said := err.Error(); strings.Contains(said, "(waited 0s") || strings.Contains(said, "apply again") {
				t.Errorf("not true of a destroy that waited: %s", said)
			}
		})
	}
}

// TestUnlockLooksOnceMore: `qm unlock` takes whichever lock there is, so over SSH it is looked whether the VM is as
// it was.
func TestUnlockLooksOnceMore(t *testing.T) {
	r := newRig(t, asToken)
	ref := r.vm(300)
	shell := &shellRecord{r: r}
	r.useShell(shell)
	r.sim.StaleLock(300, "backup", "root@pam")
	e, err := r.s.Prove(t.Context(), guard.Claim{Node: "pve1", VMID: 300, Guest: guard.HasIdentity(ref.Identity), Lock: true})
	if err != nil {
		t.Fatal(err)
	}
	r.option("memory", "1024")
	if err := r.s.TakeLock(t.Context(), e, ""); !pve.IsKind(err, pve.DigestMismatch) || len(shell.calls) > 0 {
		t.Errorf("changed meanwhile: %v, %v", shell.calls, err)
	}
}

// TestRecheck: what is remembered as left and is gone, or the VM's after all, is forgotten; what cannot be seen is not.
func TestRecheck(t *testing.T) {
	volume := saga.Residue{Kind: "volume", Node: "pve1", ID: contested, What: "volume " + contested}
	machine := saga.Residue{Kind: "guest", Node: "pve1", ID: "300", What: "VM 300"}
	for name, c := range map[string]struct {
		happens func(*rig)
		left    []saga.Residue
		want    int
		fails   bool
	}{
		"nothing remembered":      {func(*rig) {}, nil, 0, false},
		"the VM's own":            {func(*rig) {}, []saga.Residue{volume}, 0, false},
		"left":                    {func(r *rig) { r.change(func(w *state.World) { delete(w.Guests, 300) }) }, []saga.Residue{volume}, 1, false},
		"another VM's":            {func(r *rig) { r.option("smbios1", "uuid="+uuidOf(1)) }, []saga.Residue{volume, machine}, 1, false},
		"gone":                    {func(r *rig) { r.forgetVM(300) }, []saga.Residue{volume, machine}, 0, false},
		"the VM":                  {func(*rig) {}, []saga.Residue{machine}, 1, false},
		"volumes are not seen":    {func(r *rig) { r.forgetVM(300); r.withoutAllocate() }, []saga.Residue{volume}, 1, false},
		"the storage is not seen": {func(r *rig) { r.forgetVM(300); r.refuse("/nodes/{node}/storage/{storage}/content") }, []saga.Residue{volume}, 0, true},
		"the VM cannot be read":   {func(r *rig) { r.refuse("/nodes/{node}/qemu/{vmid}/config") }, []saga.Residue{machine}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, asToken)
			ref := r.vm(300)
			c.happens(r)
			got, err := r.s.Recheck(t.Context(), ref, c.left)
			if len(got) != c.want || (err != nil) != c.fails {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}

// forgetVM removes a VM and its volumes behind everybody's back.
func (r *rig) forgetVM(vmid int) {
	r.change(func(w *state.World) {
		delete(w.Guests, vmid)
		for key, v := range w.Volumes {
			if v.VMID == vmid {
				delete(w.Volumes, key)
			}
		}
	})
}

// withoutAllocate takes from the token what it takes to see volumes without a VM.
func (r *rig) withoutAllocate() {
	r.change(func(w *state.World) {
		for name, privileges := range w.Roles {
			w.Roles[name] = slices.DeleteFunc(slices.Clone(privileges), func(p string) bool { return p == "Datastore.Allocate" || p == "VM.Config.Disk" })
		}
	})
}

// refuse has the server refuse a look.
func (r *rig) refuse(path string) {
	r.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "GET", Path: path}, Phase: fault.Before, Status: 500, Reason: "no", Times: -1}})
}

// TestMerge: a leftover is named once.
func TestMerge(t *testing.T) {
	one, two := saga.Residue{Kind: "volume", Node: "pve1", ID: "a"}, saga.Residue{Kind: "volume", Node: "pve2", ID: "a"}
	if got := merge([]saga.Residue{one}, []saga.Residue{one, two, two}); !slices.Equal(got, []saga.Residue{one, two}) {
		t.Errorf("got %v", got)
	}
}

// TestTargetsOf: a later destroy acts on what the create knew, the place where the VM ended up first.
func TestTargetsOf(t *testing.T) {
	proof := &guest.Proof{VMID: 300, Nodes: []string{"pve1", "pve2"}, Tasks: []string{"UPID:a"}, Guessed: []string{"UPID:b"}, Lost: true, Pool: "web", HA: true,
		Baselines: []guest.BaselineRecord{{Node: "pve1", Storages: []string{"x"}}, {Node: "pve2", Storages: []string{"y"}, Before: []string{"y:vm-300-disk-0"}}}}
	mark := markOf("0123456789abcdef")
	all := targetsOf(proof, mark, []saga.Residue{{Kind: "volume", Node: "pve2", ID: "x:vm-300-disk-1"}, {Kind: "guest", ID: "300"}})
	if len(all) != 2 || all[0].Baseline.Node != "pve1" || all[0].Lost == nil || !all[0].Managed || all[0].Pool != "web" || all[0].Mark != mark || all[1].Mark != mark ||
		!slices.Equal(all[0].Tasks.UPIDs, []pve.UPID{"UPID:a", "UPID:b"}) || !all[0].Tasks.Guessed["UPID:b"] ||
		len(all[0].Made.facts) != 1 || all[0].Made.facts[place{"pve2", "x:vm-300-disk-1"}].proof != byLog {
		t.Errorf("got %+v", all)
	}
	proof.Identity = guest.Identity{UUID: uuidOf(300)}
	unmarked := map[string]string{"smbios1": "uuid=" + uuidOf(300)}
	for _, c := range []struct{ committed, alone, owns, mayOwn bool }{
		{}, // another run has taken the mark away
		{committed: true, mayOwn: true}, {committed: true, alone: true, owns: true}, {alone: true, owns: true},
	} {
		proof.Committed, proof.Alone = c.committed, c.alone
		all = targetsOf(proof, mark, nil)
		if owns, may := all[0].Owns(unmarked), all[0].MayOwn(unmarked); all[0].Baseline.Node != "pve2" || owns != c.owns || may != c.mayOwn {
			t.Errorf("%+v: owns %t, may own %t, got %+v", c, owns, may, all)
		}
	}
}
