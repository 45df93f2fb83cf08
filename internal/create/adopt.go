package create

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// adoptable makes sure, before anything is made, that the volumes to adopt exist, that no guest uses them, and that
// they hold the expected content.
func (i *idChooser) adoptable(ctx context.Context, baselines guest.Baselines) error {
	for _, a := range i.request.Adopts {
		f := baselines[0]
		if _, there := f.Before[a.Volume]; !there {
			return i.notThere(f, a)
		}
		if err := i.creator.destroyer.ProveLeftOver(ctx, f.Node, i.request.VMID, []string{a.Volume}); err != nil {
			return a.refuse("volume", "cannot be adopted", "It was not touched, and no VM was created", err)
		}
		if a.SHA256 == "" {
			continue
		}
		if i.creator.hasher == nil {
			return a.refuse("sha256", "cannot be verified", "A checksum is computed on the node. Give the provider ssh, or "+
				"leave sha256 out", nil)
		}
		sum, err := i.creator.hasher.SHA256(ctx, f.Node, a.Volume)
		if err != nil {
			return a.refuse("sha256", "cannot be verified", "No VM was created", err)
		}
		if !strings.EqualFold(sum, a.SHA256) {
			return a.refuse("sha256", "does not hold what it should",
				fmt.Sprintf("Its sha256 on node %s is %s. It was not touched, and no VM was created", f.Node, sum), nil)
		}
	}
	return nil
}

// notThere refuses a volume that a storage does not list.
func (i *idChooser) notThere(f *guest.Baseline, a Adopted) error {
	storage := volid.Storage(a.Volume)
	if err := f.Unlisted[storage]; err != nil {
		return a.refuse("volume", "cannot be looked at", fmt.Sprintf("The volumes of storage %s cannot be listed on node "+
			"%s. No VM was created", storage, f.Node), err)
	}
	has := "none"
	if orphans := (guest.Baselines{f}).Orphans(); len(orphans) > 0 {
		has = strings.Join(orphans, ", ")
	}
	return a.refuse("volume", "is not there", fmt.Sprintf("Of the volumes with the id %d node %s has: %s. No VM "+
		"was created",
		i.request.VMID, f.Node, has), nil)
}

// leftovers are the volumes under the configured VMID that the configuration does not mention.
func (i *idChooser) leftovers(baselines guest.Baselines) []string {
	return slices.DeleteFunc(baselines.Orphans(), i.isAdopted)
}

// findNamed tells the volumes to adopt, and those to copy, from leftovers: two storages may name one place, such as two
// of one pool for thin and thick volumes, and each lists the volume under its own name (pve-storage ZFSPoolPlugin.pm
// list_images). One that may be such a volume is taken for it.
func (i *idChooser) findNamed(ctx context.Context) error {
	none := func(string) bool { return false }
	i.isAdopted, i.isSource = none, none
	sources := i.request.Spec.SourcesOf(i.request.VMID)
	if len(i.request.Adopts) == 0 && len(sources) == 0 {
		return nil
	}
	places, err := i.creator.destroyer.Places(ctx)
	if err != nil {
		return fmt.Errorf("see which volumes with the id %d are those that the configuration names: %w", i.request.VMID, err)
	}
	var adopted []string
	for _, a := range i.request.Adopts {
		if twin, how := places.Likest(a.Volume, slices.Values(adopted)); how == volumeuse.Same && twin != a.Volume {
			return a.refuse("volume", "cannot be adopted twice", "It is "+twin+", which another slot gets: the two storages "+
				"are one place. No VM was created", nil)
		}
		adopted = append(adopted, a.Volume)
	}
	i.isAdopted = func(volume string) bool { return places.MayBe(volume, adopted) }
	i.isSource = func(volume string) bool { return places.MayBe(volume, sources) }
	return nil
}

// withoutAdopted adds to the error for a taken VMID that a killed create may have left the VM without the volumes to
// adopt: they are attached after the commit.
func withoutAdopted(adopts []Adopted) string {
	var volumes []string
	for _, a := range adopts {
		volumes = append(volumes, a.Volume)
	}
	if len(volumes) == 0 {
		return ""
	}
	return fmt.Sprintf(". It may be what a create that was killed has left, without %s: after an import the next apply "+
		"attaches what is missing. It starts the VM, and boots it from there, where power_state = \"running\" and "+
		"boot_order are configured",
		strings.Join(volumes, ", "))
}
