package vm

import (
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/update"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

const (
	isError   = tfprotov6.DiagnosticSeverityError
	isWarning = tfprotov6.DiagnosticSeverityWarning
)

func plain() model.Model {
	return model.Model{Options: vm.Options{Name: new("web")}, Node: new("pve1"), CPU: &vm.CPU{Cores: new(int64(2))},
		Disks:    map[string]model.Disk{"scsi0": size("4G")},
		Networks: map[string]model.NIC{"net0": {NICOptions: vm.NICOptions{Bridge: new("vmbr0")}}}}
}

// obedient is a cluster with one VM that does what it is told.
func obedient(t *testing.T) (*fake, *vm.Spec) {
	t.Helper()
	server := &vm.Spec{}
	f := &fake{t: t}
	f.create = func(r create.Request) (create.Created, error) {
		*server = stored(r.Spec)
		return create.Created{Guest: guestOf(*server, r.Pool)}, nil
	}
	f.read = func(guest.Ref) (guest.Guest, guest.Presence, error) {
		return guestOf(*server, ""), guest.Found, nil
	}
	f.update = func(r update.Request) (guest.Guest, []guest.Warning, error) {
		*server = obey(*server, vm.Diff(vm.WithRest(r.Prior, *server), modelled(r.Planned)))
		return guestOf(*server, r.Pool), nil, nil
	}
	return f, server
}

func residue() saga.Residue {
	return saga.Residue{Kind: "volume", Node: "pve1", ID: "local-zfs:vm-100-disk-0", What: "volume local-zfs:vm-100-disk-0",
		Command: "pvesm free local-zfs:vm-100-disk-0"}
}

func TestCreateThatIsRolledBack(t *testing.T) {
	s := newSession(t, &fake{t: t, create: func(create.Request) (create.Created, error) {
		return create.Created{}, &saga.Error{Step: "create VM 100", Err: errors.New("no space")}
	}})
	s.apply(plain())
	s.says(isError, "Cannot create", "no space", "nothing is left")
	if !s.state.IsNull() {
		t.Errorf("state %s", s.state)
	}
}

func TestCreateThatLeavesSomething(t *testing.T) {
	left := []saga.Residue{residue()}
	proof := &guest.Proof{VMID: 100, Saga: "t-1"}
	f := &fake{t: t}
	f.create = func(r create.Request) (create.Created, error) {
		return create.Created{Guest: guest.Guest{VMID: 100, Node: "pve1", Spec: r.Spec}, Left: left, Proof: proof},
			&saga.Error{Step: "create VM 100", Err: errors.New("no space"), Left: left}
	}
	s := newSession(t, f)
	s.apply(plain())
	s.says(isError, "Cannot create VM 100 on pve1", "no space", "volume local-zfs:vm-100-disk-0", "pvesm free local-zfs:vm-100-disk-0",
		"tainted")
	if got := s.model(); model.Value(got.ID) != "100" || model.Value(got.VMID) != 100 || got.UUID != nil {
		t.Errorf("state %+v", got)
	}

	// The leftover keeps the resource in state although the VM is gone …
	f.read = func(ref guest.Ref) (guest.Guest, guest.Presence, error) {
		if ref.Proof == nil || ref.Proof.Saga != "t-1" {
			t.Errorf("read without the proof: %+v", ref)
		}
		return guest.Guest{}, guest.Gone, nil
	}
	f.left = func(left []saga.Residue) ([]saga.Residue, error) { return left, nil }
	s.refresh()
	s.says(isWarning, "Leftovers of VM 100", "pvesm free")
	if s.state.IsNull() {
		t.Fatal("the resource was dropped while something of it is left")
	}
	// … a destroy tries again, under the same proof, and remembers what it could not do …
	f.remove = func(r destroy.Request) ([]saga.Residue, []guest.Warning, error) {
		if r.Ref.Proof == nil || len(r.Left) != 1 {
			t.Errorf("delete without proof or leftovers: %+v", r)
		}
		return r.Left, nil, &saga.LeftError{Left: r.Left, Err: errors.New("the storage is offline")}
	}
	s.destroy()
	s.says(isError, "Cannot destroy VM 100", "offline", "pvesm free")
	if s.state.IsNull() {
		t.Fatal("the resource was dropped by a destroy that failed")
	}
	// … until nothing is left.
	f.left = func([]saga.Residue) ([]saga.Residue, error) { return nil, nil }
	s.refresh()
	s.quiet()
	if !s.state.IsNull() {
		t.Error("the resource stays although nothing of it is left")
	}
}

func TestCreateThatKeeps(t *testing.T) {
	s := newSession(t, &fake{t: t, create: func(r create.Request) (create.Created, error) {
		if r.OnFailure != create.Keep {
			t.Error("keep is not asked for")
		}
		return create.Created{Guest: guest.Guest{VMID: 100, Node: "pve1", Spec: r.Spec}, Proof: &guest.Proof{VMID: 100}},
			&saga.Error{Step: "start VM 100", Err: errors.New("no KVM")}
	}})
	config := plain()
	config.OnFailure = new("keep")
	s.apply(config)
	s.says(isError, "no KVM", "stays on the server")
	if s.state.IsNull() || !strings.Contains(string(s.private), "proof") {
		t.Errorf("state %s, private %s", s.state, s.private)
	}
}

func TestCreateThatCannotBeReadBack(t *testing.T) {
	f, server := obedient(t)
	f.create = func(r create.Request) (create.Created, error) {
		*server = stored(r.Spec)
		return create.Created{Guest: guest.Guest{VMID: 100, Node: "pve1"},
			Warnings: []guest.Warning{{Summary: "could not be read back", Detail: "x"}}}, nil
	}
	s := newSession(t, f)
	config := plain()
	s.apply(config)
	s.says(isWarning, "could not be read back")
	if got := s.model(); s.failed() || model.Value(got.ID) != "100" || got.UUID != nil {
		t.Fatalf("the id is lost: %+v", got)
	}
	s.refresh()
	if got := s.model(); model.Value(got.UUID) != "u-1" || got.Disks["scsi0"].Volume == nil {
		t.Errorf("the refresh did not fill the state: %+v", got)
	}
	if !strings.Contains(string(s.private), "u-1") && !strings.Contains(string(s.private), "identity") {
		t.Errorf("the identity was not noted: %s", s.private)
	}
	if planned, _ := s.plan(rawOf(t, s.v, config)); !planned.Equal(s.state) {
		t.Error("the plan is not empty afterwards")
	}
}

func TestReadThatCannotTell(t *testing.T) {
	f, _ := obedient(t)
	s := newSession(t, f)
	s.apply(plain())
	before := s.state
	for name, answer := range map[string]struct {
		seen    guest.Presence
		err     error
		isError bool
	}{
		"a node is offline": {guest.Unknown, errors.New("node pve2 is offline"), false},
		"not permitted": {guest.Unknown, &pve.Error{Op: "read", Status: 403, Kind: pve.Denied, Message: "Permission check failed"},
			false},
		"refused login":    {guest.Unknown, &pve.Error{Op: "log in", Status: 401, Kind: pve.Denied, Message: "authentication failure"}, true},
		"no server at all": {guest.Unknown, &pve.Error{Op: "list", Kind: pve.Unavailable, Message: "connection refused"}, true},
		"another VM":       {guest.Found, &guest.IdentityError{VMID: 100, Node: "pve1"}, true},
	} {
		f.read = func(guest.Ref) (guest.Guest, guest.Presence, error) {
			return guest.Guest{}, answer.seen, answer.err
		}
		s.refresh()
		if s.failed() != answer.isError || len(s.diags) != 1 {
			t.Errorf("%s: %v", name, s.diags)
		}
		if !s.state.Equal(before) {
			t.Errorf("%s: the state changed", name)
		}
	}
	f.read = func(guest.Ref) (guest.Guest, guest.Presence, error) {
		return guest.Guest{}, guest.Gone, nil
	}
	s.refresh()
	if !s.state.IsNull() {
		t.Error("a VM that is gone stays in state")
	}
}

func TestUpdateThatFailsHalfWay(t *testing.T) {
	f, server := obedient(t)
	s := newSession(t, f)
	s.apply(plain())
	s.quiet()

	f.update = func(r update.Request) (guest.Guest, []guest.Warning, error) {
		if r.Ref.Identity.UUID != "u-1" {
			t.Errorf("the update has no identity: %+v", r.Ref)
		}
		server.Name = r.Planned.Name // the rest is refused
		return guestOf(*server, ""), nil, &pve.Error{Op: "configure VM 100", Status: 400, Kind: pve.Invalid,
			Message: "Parameter verification failed.",
			Params:  map[string]string{"net0": "hotplug problem"}}
	}
	config := plain()
	config.Name = new("db")
	config.Networks = map[string]model.NIC{"net0": {NICOptions: vm.NICOptions{Bridge: new("vmbr1")}}}
	config.Disks = nil // to be removed
	s.apply(config)
	s.says(isError, "net0: hotplug problem")
	got := s.model()
	if model.Value(got.Name) != "db" || model.Value(got.Networks["net0"].Bridge) != "vmbr0" {
		t.Errorf("the state does not say what is true: %+v", got)
	}
	if _, still := got.Disks["scsi0"]; !still {
		t.Error("the disk that was not removed has left the state")
	}
	f2, _ := obedient(t)
	f.update = func(r update.Request) (guest.Guest, []guest.Warning, error) {
		if _, still := r.Prior.Disks["scsi0"]; !still || len(r.Planned.Disks) != 0 {
			t.Errorf("the removal of the disk is not tried again: %+v", r)
		}
		return f2.update(r)
	}
	s.apply(config)
	s.quiet()
}

func TestImport(t *testing.T) {
	f, server := obedient(t)
	full := plain()
	full.Networks["net0"] = model.NIC{Model: new("virtio"), NICOptions: vm.NICOptions{Bridge: new("vmbr0"), MACAddr: new("BC:24:11:00:00:01")}}
	*server = stored(full.Spec(false))
	f.create = nil
	f.adopt = func(node string, vmid int) (guest.Guest, error) {
		if node != "pve1" || vmid != 100 {
			t.Errorf("adopts %s/%d", node, vmid)
		}
		return guestOf(*server, ""), nil
	}
	s := newSession(t, f)
	s.adopt("pve1/100")
	s.quiet()
	s.refresh()
	s.quiet()
	f.update = nil
	if planned, _ := s.plan(rawOf(t, s.v, full)); !planned.Equal(s.state) {
		t.Error("the plan is not empty after the import")
	}
	// A device that the configuration never named is forgotten, and stays.
	without := full
	without.Networks = nil
	planned, _ := s.plan(rawOf(t, s.v, without))
	s.says(isWarning, "networks.net0")
	if got := modelOf(t, s.v, planned); got.Networks != nil {
		t.Errorf("planned %+v", got.Networks)
	}
	s.apply(without)
	s.quiet()
	// A source and a wish are recorded without asking anybody.
	without.Clone = &model.Clone{VMID: new(int64(9000))}
	without.OnFailure = new("keep")
	s.apply(without)
	s.quiet()
	if got := s.model(); got.Clone == nil || model.Value(got.OnFailure) != "keep" {
		t.Errorf("not recorded: %+v", got)
	}
}

func TestImportIsRefused(t *testing.T) {
	for _, id := range []string{"", "web", "pve1/", "/100", "99", "0100", "pve1/100/x", "1000000000", "-100"} {
		s := newSession(t, &fake{t: t})
		s.adopt(id)
		s.says(isError, "Cannot import")
		if !s.state.IsNull() {
			t.Errorf("%q is in state", id)
		}
	}
	s := newSession(t, &fake{t: t, adopt: func(string, int) (guest.Guest, error) {
		return guest.Guest{}, errors.New("there is no VM 4711; volumes are left over: local-zfs:vm-4711-disk-0")
	}})
	s.adopt("4711")
	s.says(isError, "Cannot import VM 4711", "vm-4711-disk-0")
	if !s.state.IsNull() {
		t.Error("a refused import is in state")
	}
}

func TestPasswordIsSentHashedAndNotKept(t *testing.T) {
	f, _ := obedient(t)
	var sent []string
	inner, innerUpdate := f.create, f.update
	f.create = func(r create.Request) (create.Created, error) {
		sent = append(sent, model.Value(r.Spec.CloudInit.PasswordHash))
		return inner(r)
	}
	f.update = func(r update.Request) (guest.Guest, []guest.Warning, error) {
		if h := r.Planned.CloudInit.PasswordHash; h != nil {
			sent = append(sent, *h)
		}
		return innerUpdate(r)
	}
	s := newSession(t, f)
	config := plain()
	config.CloudInit = &model.CloudInit{Storage: new("local-zfs"), CloudInitOptions: vm.CloudInitOptions{User: new("ops")}}
	config.Password, config.PasswordVersion = new("hunter2"), new(int64(1))
	s.apply(config)
	config.Name = new("other") // the version stays: not sent again
	s.apply(config)
	config.PasswordVersion = new(int64(2))
	s.apply(config)
	if len(sent) != 2 || !strings.HasPrefix(sent[0], "$6$") || !strings.HasPrefix(sent[1], "$6$") || sent[0] == sent[1] {
		t.Errorf("sent %q, want two hashes with salts of their own", sent)
	}
	if text := s.state.String() + string(s.private); strings.Contains(text, "hunter2") || strings.Contains(text, "$6$") {
		t.Error("the password is kept")
	}
	config.Password, config.PasswordVersion = nil, nil
	s.apply(config)
	if len(sent) != 3 || sent[2] != "" {
		t.Errorf("sent %q, want the password taken away", sent)
	}
}
