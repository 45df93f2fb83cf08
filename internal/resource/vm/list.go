package vm

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	tflist "github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/list/schema"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
)

// readsAtOnce is how many VMs of a list are read at the same time, as many as Terraform would import.
const readsAtOnce = 10

// List lists what is a proxmox_vm, or can become one by an import: terraform query, since 1.14.
type List struct{ *Resource }

var _ tflist.ListResourceWithConfigure = List{}

// NewList makes the list of a resource.
func NewList(of *Resource) tflist.ListResource { return List{of} }

// ListResourceConfigSchema is the shape of the config block in a list block.
func (List) ListResourceConfigSchema(_ context.Context, _ tflist.ListResourceSchemaRequest,
	resp *tflist.ListResourceSchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "The VMs of the cluster for `terraform query` (Terraform 1.14), templates included, " +
			"containers not, in the order of their ids. It requests the cluster's list once, whatever the filters. A VM's " +
			"power state and name in it are up to 10 seconds old. PVE silently leaves out VMs that the identity cannot see: " +
			"all VMs need `VM.Audit` on `/vms`. With `include_resource`, and for `-generate-config-out`, each VM is also read " +
			"as by an import: its configuration, options and rules of its firewall, ten VMs at a time. Addresses are not " +
			"read. A VM that an import would refuse, or that cannot be read, is left out with a warning. The identity is the " +
			"state's, `vmid` alone.",
		Attributes: kit.ListFilter(),
	}
}

// List asks for the cluster's listing and, where the resources are wanted, reads the VMs, several at once. The results
// come in the order of the VMIDs, each as soon as it is there. A VM that cannot be told or cannot be imported costs a
// warning and is left out: Terraform ends a list at the first error.
func (l List) List(ctx context.Context, req tflist.ListRequest, stream *tflist.ListResultsStream) {
	attempt := kit.Attempt{Verb: "list", Thing: "the VMs of the cluster", As: l.Session.Identity()}
	if l.machines == nil {
		stream.Results = tflist.ListResultsStreamDiagnostics(diag.Diagnostics{kit.NotConfigured(attempt.Verb, attempt.Thing)})
		return
	}
	var filter kit.VMFilter
	if diags := req.Config.Get(ctx, &filter); diags.HasError() {
		stream.Results = tflist.ListResultsStreamDiagnostics(diags)
		return
	}
	within, cancel := context.WithTimeout(ctx, kit.ReadTimeout)
	defer cancel()
	found, err := filter.List(within, l.Session.API)
	if err != nil {
		stream.Results = tflist.ListResultsStreamDiagnostics(kit.Diagnose(attempt, err))
		return
	}
	results := resultsOf(ctx, attempt, found.Meant, int(req.Limit), func(ctx context.Context,
		listed pve.Resource) tflist.ListResult {
		return l.result(ctx, req, listed)
	})
	said := found.Warnings()
	if req.Limit > 0 && int64(len(found.Meant)) > req.Limit { // said first: Terraform hears nothing once it has enough
		said.AddWarning("The list ends at its limit",
			fmt.Sprintf("%d VMs are meant, and the limit of the list block is %d.", len(found.Meant), req.Limit))
	}
	stream.Results = func(push func(tflist.ListResult) bool) {
		if len(said) == 0 || push(tflist.ListResult{Diagnostics: said}) {
			results(push)
		}
	}
}

// resultsOf makes the results of the VMs that are meant, several at once but no more than the limit leaves room for,
// and gives them in order. A VM that is left out does not count.
func resultsOf(ctx context.Context, attempt kit.Attempt, meant []pve.Resource, limit int,
	result func(context.Context, pve.Resource) tflist.ListResult) iter.Seq[tflist.ListResult] {
	return func(push func(tflist.ListResult) bool) {
		within, stop := context.WithCancel(ctx)
		var working sync.WaitGroup
		defer working.Wait()
		defer stop()
		if limit <= 0 || limit > len(meant) {
			limit = len(meant)
		}
		var ahead []chan tflist.ListResult
		for given := 0; given < limit; {
			for len(meant) > 0 && len(ahead) < min(readsAtOnce, limit-given) {
				listed, made := meant[0], make(chan tflist.ListResult, 1)
				meant, ahead = meant[1:], append(ahead, made)
				working.Go(func() { made <- result(within, listed) })
			}
			if len(ahead) == 0 {
				return
			}
			next := <-ahead[0]
			ahead = ahead[1:]
			if err := ctx.Err(); err != nil {
				push(tflist.ListResult{Diagnostics: kit.Diagnose(attempt, err)})
				return
			}
			if !push(next) {
				return
			}
			if next.Identity != nil {
				given++
			}
		}
	}
}

// result is one VM of the list, or a warning why it is none. Its identity is what a state has of it, whether it was
// read or not.
func (l List) result(ctx context.Context, req tflist.ListRequest, listed pve.Resource) tflist.ListResult {
	named := model.Thing(int64(listed.VMID), "", listed.Node)
	attempt := kit.Attempt{Verb: "list", Thing: named, As: l.Session.Identity()}
	result := req.NewListResult(ctx)
	result.DisplayName = named
	if listed.Name != "" {
		result.DisplayName = listed.Name + " on " + listed.Node
	}
	if !req.IncludeResource {
		if err := guest.AdoptableAsListed(listed); err != nil {
			return tflist.ListResult{Diagnostics: kit.LeftOut(attempt, err)}
		}
	} else {
		ctx, cancel := context.WithTimeout(ctx, kit.ReadTimeout)
		defer cancel()
		found, err := l.machines.AdoptListed(ctx, listed)
		if err == nil {
			err = holdsDisk(found)
		}
		if err != nil {
			return tflist.ListResult{Diagnostics: kit.LeftOut(attempt, err)}
		}
		state, diags := l.adopted(ctx, found)
		if diags.HasError() {
			return tflist.ListResult{Diagnostics: kit.LeftOut(attempt, errors.New(diags[0].Summary()+": "+diags[0].Detail()))}
		}
		result.Resource.Raw, result.Diagnostics = state, diags
	}
	result.Diagnostics.Append(identify(ctx, result.Identity, new(int64(listed.VMID)))...)
	return result
}
