package model

import (
	"context"
	"fmt"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// Thing names a VM for people.
func Thing(vmid int64, name, node string) string {
	text := "a VM"
	switch {
	case vmid != 0:
		text = fmt.Sprintf("VM %d", vmid)
	case name != "":
		text = fmt.Sprintf("VM %q", name)
	}
	if node != "" {
		text += " on " + node
	}
	return text
}

// Thing names the VM for people.
func (m *Model) Thing() string { return Thing(Value(m.VMID), Value(m.Name), Value(m.Node)) }

// About notes in the account of the operation which VM it is about.
func (m *Model) About(ctx context.Context) {
	o := oplog.From(ctx)
	o.About(int(Value(m.VMID)), Value(m.Node))
	if m.VMID != nil || m.Name != nil {
		o.Thing(m.Thing())
	}
}

// Attempt is an operation on a VM, for diagnostics. The password is in neither the state nor the plan, so it is given.
func (m *Model) Attempt(as kit.Identity, verb string, password *string) kit.Attempt {
	return kit.Attempt{Verb: verb, Thing: m.Thing(), At: m.Locator(), As: as, Secrets: []string{Value(password)}}
}
