package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/auth"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/volume"
)

// cloudinitDrive finds the guest's cloud-init drive.
func cloudinitDrive(e *engine.Engine, conf map[string]string) (opt string, d drive.Drive) {
	for _, k := range slices.Sorted(maps.Keys(conf)) {
		if !drive.IsDrive(k) {
			continue
		}
		if d := drive.Parse(e, k, conf[k]); d != nil && d.IsCloudinit() {
			return k, d
		}
	}
	return "", nil
}

// BuildCloudinit writes the image that a guest boots with: it makes the volume if it is gone and needs the custom
// snippets (QemuServer/Cloudinit.pm).
func BuildCloudinit(p engine.Process, g *state.Guest) error {
	_, d := cloudinitDrive(p.Engine, g.Config)
	if d == nil {
		return nil
	}
	for _, part := range strings.Split(g.Config["cicustom"], ",") {
		_, volid, ok := strings.Cut(part, "=")
		if ok && p.W.Volume(g.Node, volid) == nil {
			return perl.Die("volume '%s' does not exist", volid)
		}
	}
	if p.W.Volume(g.Node, d.File()) == nil {
		storage, name, _ := state.SplitVolid(d.File())
		file := name[strings.LastIndexByte(name, '/')+1:]
		format := "raw"
		if strings.HasSuffix(file, ".qcow2") {
			format = "qcow2"
		}
		if _, err := volume.Alloc(p, g.Node, storage, g.VMID, file, format, drive.CloudinitSize); err != nil {
			return err
		}
	}
	p.Logf("generating cloud-init ISO")
	g.Cloudinit = nil
	return nil
}

// cloudinitOptions are those that GET cloudinit lists with their values (qemu-server API2/Qemu.pm, $cloudinitoptions).
var cloudinitOptions = []string{
	"cicustom", "cipassword", "citype", "ciupgrade", "ciuser", "nameserver", "searchdomain", "sshkeys",
}

// CloudinitPending is GET cloudinit: the options of the image, and those of the next one (API2/Qemu.pm,
// cloudinit_pending). A value that is false to Perl is not listed.
func CloudinitPending(r *engine.Request) (any, error) {
	g, err := guest.Load(r)
	if err != nil {
		return nil, err
	}
	list, added := []any{}, perl.SplitList(g.Cloudinit[addedOptions])
	shown := func(opt, value string) string {
		if opt == "cipassword" && value != "" {
			return masked
		}
		return value
	}
	for _, opt := range added {
		list = append(list, map[string]any{"key": opt, "pending": shown(opt, g.Config[opt])})
	}
	for _, opt := range cloudinitOptions {
		value := g.Config[opt]
		if value == "" || value == "0" || slices.Contains(added, opt) {
			continue
		}
		row := map[string]any{"key": opt, "value": shown(opt, value)}
		if was := g.Cloudinit[opt]; was != "" {
			row["value"], row["pending"] = shown(opt, was), shown(opt, value)
		}
		list = append(list, row)
	}
	for _, opt := range slices.Sorted(maps.Keys(g.Cloudinit)) {
		if opt != addedOptions && g.Config[opt] == "" {
			list = append(list, map[string]any{"key": opt, "delete": 1})
		}
	}
	return list, nil
}

// addedOptions is the key under which the section of the image lists options that it was made without.
const addedOptions = "added"

// recordCloudinit notes that an option of a running guest is no longer what its image was made of. No value is "".
// (QemuServer.pm, vmconfig_hotplug_pending, $cloudinit_record_changed).
func recordCloudinit(g *state.Guest, opt, old, next string) {
	if !isCloudinitOption(opt) && opt != "name" {
		return
	}
	if g.Cloudinit == nil {
		g.Cloudinit = map[string]string{}
	}
	added := perl.SplitList(g.Cloudinit[addedOptions])
	recorded, wasRecorded := g.Cloudinit[opt]
	switch {
	case next != "" && wasRecorded && next == recorded: // as in the image again
		delete(g.Cloudinit, opt)
		added = perl.Without(added, opt)
	case wasRecorded:
	case next == "" && slices.Contains(added, opt):
		added = perl.Without(added, opt)
	case slices.Contains(added, opt):
	case old != "":
		g.Cloudinit[opt] = old
	case next != "":
		added = append(added, opt)
	}
	slices.Sort(added)
	delete(g.Cloudinit, addedOptions)
	if len(added) > 0 {
		g.Cloudinit[addedOptions] = strings.Join(added, ",")
	}
	if len(g.Cloudinit) == 0 {
		g.Cloudinit = nil
	}
}

// CloudinitUpdate is PUT cloudinit: the image is written again, and a running guest gets it in the place of what QEMU
// has open (QemuServer.pm vmconfig_update_cloudinit_drive, Blockdev.pm change_medium).
func CloudinitUpdate(r *engine.Request) (any, error) {
	release, err := guest.Lock(r, engine.LockTimeout)
	if err != nil {
		return nil, err
	}
	defer release()
	g, err := guest.Load(r)
	if err != nil {
		return nil, err
	}
	if err := guest.CheckLock(g); err != nil {
		return nil, err
	}
	if err := BuildCloudinit((engine.Process{Request: r, Worker: nil}), g); err != nil {
		return nil, err
	}
	if opt, d := cloudinitDrive(r.Engine, g.Config); d != nil && g.Running != nil && g.Running.Booted[opt] != "" {
		g.Running.Booted[opt] = g.Config[opt]
	}
	return nil, nil
}

// CloudinitDump is GET cloudinit/dump: the files that the image would hold.
func CloudinitDump(r *engine.Request) (any, error) {
	g, err := guest.Load(r)
	if err != nil {
		return nil, err
	}
	c := g.Config
	for _, part := range strings.Split(c["cicustom"], ",") {
		if volid, ok := strings.CutPrefix(part, r.Params["type"]+"="); ok {
			v := r.W.Volume(g.Node, volid)
			if v == nil {
				return nil, perl.Die("volume '%s' does not exist", volid)
			}
			return v.Data, nil
		}
	}
	switch r.Params["type"] {
	case "network":
		return networkData(r.Engine, r.W, g), nil
	case "meta":
		return metaData(r.Engine, r.W, g), nil
	}
	path := "/vms/{vmid}" // earlier PVE checks this very text, so that only rights inherited from above count
	if r.W.Has(state.DumpChecksGuest) {
		path = "/vms/" + r.Params["vmid"]
	}
	return userData(g, auth.Has(r.W, r.Auth, path, "VM.Config.Cloudinit")), nil
}
