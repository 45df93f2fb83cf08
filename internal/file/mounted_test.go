package file

import (
	"context"
	"io/fs"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
)

// unmounted is a node that has not mounted a storage yet. It shows no file before PVE is asked about the storage.
type unmounted struct {
	Shell
	asked bool
}

func (u *unmounted) ReadFile(ctx context.Context, node, path string) ([]byte, error) {
	if !u.asked {
		return nil, fs.ErrNotExist
	}
	return u.Shell.ReadFile(ctx, node, path)
}

// TestSnippetOfAStorageThatIsNotMountedYet: a node that has just started shows no file of a network storage until PVE
// mounts it, which it does when it is asked about the storage (pve-storage Storage.pm storage_info). The snippet is not
// gone: a resource that made it again would find it there, and own it no more.
func TestSnippetOfAStorageThatIsNotMountedYet(t *testing.T) {
	sim, err := pvesim.New(pvesim.Options{Nodes: []string{"pve1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	here, node := clock.Client{Cluster: sim.World().Clock}, &unmounted{asked: true}
	api, err := pve.New(pve.Config{Endpoint: sim.Endpoint(), CACertificate: sim.CAPEM(),
		DialTLSContext: sim.DialTLSContext, Clock: here, APIToken: sim.Credentials().Token,
		Trace: func(_ context.Context, message string, fields map[string]string) {
			node.asked = node.asked || message == "PVE request" && fields["path"] == "/nodes/pve1/storage"
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	shell := onNodes(t, sim)
	node.Shell = shell
	jobs := request.New(api, here)
	files := New(jobs, destroy.New(jobs, guest.New(jobs), shell).Guard, node)
	spec := Spec{Node: "pve1", Storage: "local", Content: Snippets, Name: "web.yaml",
		Source: Of("web.yaml", []byte("#cloud-config\n"))}
	if _, _, err := files.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	node.asked = false
	if _, there, err := files.ReadSnippet(t.Context(), spec); !there || err != nil {
		t.Errorf("it is there: %t, %v", there, err)
	}
	spec.Name = "none.yaml"
	if _, there, err := files.ReadSnippet(t.Context(), spec); there || err != nil {
		t.Errorf("one that is gone is there: %t, %v", there, err)
	}
}
