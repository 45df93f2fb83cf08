package tfvm

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Create makes the VM whole. When it fails, either nothing is left and the state stays empty, or the state holds the VM,
// which makes Terraform taint it, and the private state remembers what is left.
func (r *Resource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	r.run.act()
	v := r.values()
	plan, diags := v.model(ctx, req.Plan.Raw)
	resp.Diagnostics.Append(diags...)
	password := readPassword(ctx, req.Config, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	plan.about(ctx)
	attempt := r.attempt("create", &plan, password)
	if r.machines == nil {
		resp.Diagnostics.Append(tfkit.NotConfigured(attempt.Verb, attempt.Thing))
		return
	}
	defer r.sweep(ctx, &plan, true)(&resp.Diagnostics)
	limit := tfkit.Duration(plan.Timeouts.Limits().Create, tfkit.CreateTimeout)
	ctx, cancel := context.WithTimeout(maskPassword(ctx, password), limit)
	defer cancel()

	first := plan
	if len(plan.adopts()) > 0 {
		first = plan.withoutAdopted()
	}
	request := first.createRequest(password, limit)
	request.Range, request.Adopts = r.Session.Range, plan.adopts()
	made, err := r.machines.Create(ctx, request)
	made, diags, err = r.adoptAfter(ctx, plan, made, err)
	resp.Diagnostics.Append(diags...)

	attempt.Kept, attempt.Doubt = request.OnFailure == create.Keep && made.Guest.VMID != 0, made.Doubt
	if made.Guest.VMID != 0 {
		attempt.Thing = thing(int64(made.Guest.VMID), "", made.Guest.Node)
	}
	resp.Diagnostics.Append(tfkit.Warn(made.Warnings)...)
	resp.Diagnostics.Append(tfkit.Diagnose(namedAfterWaiting(attempt, err), explainTaint(err))...)
	if made.Guest.VMID == 0 {
		return
	}
	resp.State.Raw, diags = v.newState(ctx, req.Plan.Raw, made.Guest)
	resp.Diagnostics.Append(diags...)
	resp.Diagnostics.Append(identify(ctx, resp.Identity, new(int64(made.Guest.VMID)))...)
	private := privateState{Managed: v.shape.Managed(req.Config.Raw), Identity: made.Guest.Identity, Residues: made.Left, Proof: made.Proof}
	resp.Diagnostics.Append(private.write(ctx, resp.Private)...)
}

// newState is the state after a create or an update that did what was planned.
func (v values) newState(ctx context.Context, planned tftypes.Value, g guest.Guest) (tftypes.Value, diag.Diagnostics) {
	server, diags := v.server(ctx, g)
	if diags.HasError() { // a bug, but the VM exists: its id must not be lost
		server = tftypes.NewValue(planned.Type(), nil)
	}
	return v.shape.Settle(planned, server), diags
}

// createRequest is the plan as a request.
func (m *model) createRequest(password *string, limit time.Duration) create.Request {
	request := create.Request{
		Node: value(m.Node), VMID: int(value(m.VMID)), Pool: value(m.Pool),
		Spec:  m.spec(m.copies()),
		Clone: m.Clone.request(), Restore: m.Restore.request(),

		Firewall: m.Firewall, HA: m.HA,
		Start:         m.startsWhenMade(),
		ImportStorage: value(m.ImportStorage),
		Lease:         limit, Nodes: m.Nodes, Wait: m.WaitFor.request(),
	}
	for slot, d := range m.Disks { // one whose name was not known in the plan
		if d.Imported != nil && d.Volume == nil {
			disk := request.Spec.Disks[slot]
			disk.Volume = value(d.Imported.Volume)
			request.Spec.Disks[slot] = disk
		}
	}
	request.Spec.CloudInit.PasswordHash = passwordHash(password, value(m.OSType))
	if m.copies() && m.OSType == nil { // the source's, which may be Windows; the change that sets it on a copy hashes for the others
		request.Spec.CloudInit.PasswordHash = tfkit.NonZero(value(password))
	}
	if value(m.OnFailure) == "keep" {
		request.OnFailure = create.Keep
	}
	if value(m.OnOrphanedVolumes) == "destroy" {
		request.OnOrphans = create.DestroyOrphans
	}
	return request
}

func (c *cloneModel) request() *guest.Clone {
	if c == nil {
		return nil
	}
	return &guest.Clone{VMID: int(value(c.VMID)), Name: value(c.Name), Tags: c.Tags, Node: value(c.Node), Full: c.Full,
		Snapshot: value(c.Snapshot), Storage: value(c.Storage), Format: value(c.Format), BWLimit: c.BWLimit}
}

func (r *restoreModel) request() *guest.Restore {
	if r == nil {
		return nil
	}
	return &guest.Restore{Archive: value(r.Archive), Storage: value(r.Storage), BWLimit: r.BWLimit}
}

// readPassword reads the write-only password, which stands in the configuration only.
func readPassword(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) *string {
	var password *string
	diags.Append(config.GetAttribute(ctx, path.Root("cloud_init_password_wo"), &password)...)
	return password
}

// passwordHash is the password as PVE is to store it. PVE hashes it on an update but not on a create, and never for Windows,
// whose cloudbase-init wants the text (qemu-server API2/Qemu.pm, Cloudinit.pm).
func passwordHash(password *string, ostype string) *string {
	if password == nil || *password == "" {
		return nil
	}
	if vm.IsWindows(ostype) {
		return password
	}
	hash := vm.CryptSHA512(*password, rand.Text()[:16])
	return &hash
}
