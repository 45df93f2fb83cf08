package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// story is the sequence of scenes and what was claimed in them.
type story struct {
	out     io.Writer
	world   *rig.World
	engine  engine
	verbose bool
	quoted  string // last, so that several claims on one result do not repeat it
	scene   int
	claims  int
	untrue  []string
}

const (
	db       = "proxmox_vm.db"
	web      = "proxmox_vm.web"
	existing = "proxmox_vm.existing"
)

// tell plays all scenes. A scene whose claims fail does not stop the next ones.
func (s *story) tell(ctx context.Context) {
	s.world.Change(func(w *state.World) {
		w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-4711-disk-0", Content: "images", VMID: 4711, Format: "raw",
			Size: 1 << 30, Data: "orphaned data"})
	})
	s.world.Mark()
	for _, scene := range []func(context.Context){
		s.begin, s.startFails, s.taskIsKilled, s.applyAgain, s.changeInPlace, s.importExisting, s.importGhost, s.destroyAll,
	} {
		if ctx.Err() != nil {
			s.claim("the story was not interrupted", false, result{})
			return
		}
		scene(ctx)
	}
}

func (s *story) title(text string) {
	s.scene++
	fmt.Fprintf(s.out, "\n%d. %s\n", s.scene, text)
}

// claim notes a statement and whether it is true. If it is false, the output is shown.
func (s *story) claim(text string, holds bool, said result) {
	s.claims++
	mark := "ok"
	if !holds {
		mark = "UNTRUE"
		s.untrue = append(s.untrue, text)
	}
	fmt.Fprintf(s.out, "   %-6s %s\n", mark, text)
	if (!holds || s.verbose) && said.output != s.quoted {
		s.quoted = said.output
		s.quote(said.output)
	}
}

func (s *story) quote(text string) {
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		fmt.Fprintf(s.out, "          | %s\n", strings.TrimRight(line, " "))
	}
}

// changed is what changeInPlace makes of the configuration.
func changed() map[string]string {
	return map[string]string{`"made by the demonstration"`: `"changed in place"`, `size = "16G"`: `size = "24G"`, `size = 4096`: `size = 6144`}
}

// configure sets the configuration, or fails a claim.
func (s *story) configure(replace map[string]string, files ...string) {
	if err := s.engine.configure(append([]string{"provider.tf"}, files...), replace); err != nil {
		s.claim("the configuration is readable", false, result{output: err.Error()})
	}
}

// unchanged claims that the cluster is as it was at the beginning.
func (s *story) unchanged(text string, said result) {
	leaks := s.world.Leaks()
	s.claim(text, len(leaks) == 0, result{output: strings.Join(append(leaks, said.output), "\n")})
}

func (s *story) begin(ctx context.Context) {
	s.title("Plan: two VMs on a cluster that already has tenants")
	s.show()
	s.configure(nil, "web.tf")
	r := s.engine.plan(ctx)
	s.claim("the plan wants changes", r.ok && r.changes, r)
	s.unchanged("planning changes nothing on the server", r)
}

func (s *story) startFails(ctx context.Context) {
	s.title("Apply, and both VMs fail at the very end: they do not start")
	s.world.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/status/start"},
		Phase: fault.Task, Times: -1, Reason: "start failed: QEMU exited with code 1"}})
	r := s.engine.apply(ctx)
	fired := s.world.Sim.FaultsFired()
	s.world.Sim.SetFaults(nil)
	s.claim("the start of both failed", fired == 2, r)
	s.claim("the apply failed, and says why in PVE's words", !r.ok && said(r, "QEMU exited with code 1"), r)
	s.unchanged("everything was rolled back: no VM, no volume, no pool entry is left", r)
	s.claim("nothing is in state: the next apply starts again", len(s.engine.addresses(ctx)) == 0, r)
	s.show()
}

func (s *story) taskIsKilled(ctx context.Context) {
	s.title("Apply again, and the clone's worker is killed half-way: a locked VM with volumes, which the API deletes for root only")
	s.world.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/clone"}, Phase: fault.KillTask}})
	r := s.engine.apply(ctx)
	fired := s.world.Sim.FaultsFired()
	s.world.Sim.SetFaults(nil)
	s.claim("the clone's worker was killed", fired == 1, r)
	s.claim("the apply failed", !r.ok, r)
	s.claim("the half-made clone is gone again; the lock came off over SSH", s.guest(202) == nil && len(s.volumes(202)) == 0, r)
	s.claim("the other VM was made and is in state", slices.Equal(s.engine.addresses(ctx), []string{db}) && s.guest(201) != nil, r)
	s.show()
}

func (s *story) applyAgain(ctx context.Context) {
	s.title("Apply once more, without mishap")
	r := s.engine.apply(ctx)
	s.claim("the apply succeeds", r.ok, r)
	s.claim("both VMs are in state", slices.Equal(s.engine.addresses(ctx), []string{db, web}), r)
	s.claim("db runs, with disks on two storages", s.running(201) && len(s.volumes(201)) == 2, r)
	s.claim("web runs, grown to 10 GiB, and is not protected although its template is",
		s.running(202) && strings.Contains(s.config(202, "scsi0"), "size=10G") && s.config(202, "protection") != "1", r)
	s.claim("web is in its pool", s.inPool("web", 202), r)
	r = s.engine.plan(ctx)
	s.claim("the plan after it is empty", r.ok && !r.changes, r)
	s.show()
}

func (s *story) changeInPlace(ctx context.Context) {
	s.title("Change: more memory for db, a new description, a larger disk")
	before := s.config(201, "smbios1")
	s.configure(changed(), "web.tf")
	r := s.engine.plan(ctx)
	s.claim("the plan wants changes", r.ok && r.changes, r)
	r = s.engine.apply(ctx)
	s.claim("the apply succeeds", r.ok, r)
	shown := s.config(201, "description") == "changed in place" && strings.Contains(s.config(201, "scsi1"), "size=24G")
	s.claim("PVE shows the new values", shown, r)
	s.claim("it is still the same VM, and it runs", before != "" && s.config(201, "smbios1") == before && s.running(201), r)
	r = s.engine.plan(ctx)
	s.claim("the plan after it is empty", r.ok && !r.changes, r)
}

func (s *story) importExisting(ctx context.Context) {
	s.title("Import: VM 8000, which was made by hand")
	before := s.snapshotOf(8000)
	s.configure(changed(), "web.tf", "existing.tf")
	r := s.engine.importID(ctx, existing, "pve1/8000")
	s.claim("the import succeeds", r.ok, r)
	r = s.engine.plan(ctx)
	s.claim("the plan after it is empty", r.ok && !r.changes, r)
	s.claim("the VM is as it was, to the byte", s.snapshotOf(8000) == before, r)
	r = s.engine.forget(ctx, existing)
	s.claim("it is handed back (state rm)", r.ok, r)
}

func (s *story) importGhost(ctx context.Context) {
	s.title("Import: id 4711, which has no VM, only a forgotten volume")
	s.configure(changed(), "web.tf", "ghost.tf")
	r := s.engine.importID(ctx, "proxmox_vm.ghost", "pve1/4711")
	s.claim("the import is refused and names the volume", !r.ok && said(r, "vm-4711-disk-0"), r)
	s.claim("nothing was imported", slices.Equal(s.engine.addresses(ctx), []string{db, web}), r)
}

func (s *story) destroyAll(ctx context.Context) {
	s.title("Destroy")
	s.configure(changed(), "web.tf")
	r := s.engine.destroy(ctx)
	s.claim("the destroy succeeds", r.ok, r)
	s.claim("nothing is in state", len(s.engine.addresses(ctx)) == 0, r)
	s.unchanged("the cluster is as it was at the beginning, its other tenants and the forgotten volume included", r)
	s.show()
}
