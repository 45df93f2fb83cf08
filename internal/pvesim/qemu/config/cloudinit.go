package config

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
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
	return nil
}

// CloudinitPending is GET cloudinit: the changes that a regeneration would make. The simulated guests are always in
// step.
func CloudinitPending(r *engine.Request) (any, error) {
	_, err := guest.Load(r)
	return []any{}, err
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
		return "instance-id: " + g.Digest() + "\n", nil
	}
	path := "/vms/{vmid}" // earlier PVE checks this very text, so that only rights inherited from above count
	if r.W.Has(state.DumpChecksGuest) {
		path = "/vms/" + r.Params["vmid"]
	}
	return userData(g, auth.Has(r.W, r.Auth, path, "VM.Config.Cloudinit")), nil
}

func userData(g *state.Guest, clear bool) string {
	c := g.Config
	name := c["name"]
	if name == "" {
		name = fmt.Sprintf("VM%d", g.VMID)
	}
	host, _, _ := strings.Cut(name, ".")
	fqdn := name
	if d := c["searchdomain"]; d != "" && !strings.Contains(name, ".") {
		fqdn = name + "." + d
	}
	var b strings.Builder
	fmt.Fprintf(&b, "#cloud-config\nhostname: %s\nmanage_etc_hosts: true\nfqdn: %s\n", host, fqdn)
	if c["ciuser"] != "" {
		fmt.Fprintf(&b, "user: %s\n", c["ciuser"])
	} else {
		b.WriteString("disable_root: False\n")
	}
	if pw := c["cipassword"]; pw != "" {
		if !clear {
			pw = masked
		}
		fmt.Fprintf(&b, "password: %s\n", pw)
	}
	if keys, err := url.PathUnescape(c["sshkeys"]); err == nil && keys != "" {
		b.WriteString("ssh_authorized_keys:\n")
		for _, k := range strings.Split(strings.TrimSpace(keys), "\n") {
			b.WriteString("  - " + k + "\n")
		}
	}
	b.WriteString("chpasswd:\n  expire: False\n")
	if c["ciuser"] != "root" {
		b.WriteString("users:\n  - default\n")
	}
	if c["ciupgrade"] != "0" {
		b.WriteString("package_upgrade: true\n")
	}
	return b.String()
}

// networkData is the nocloud network configuration, version 1.
func networkData(e *engine.Engine, w *state.World, g *state.Guest) string {
	var b strings.Builder
	b.WriteString("version: 1\nconfig:\n")
	for n := range 32 {
		opt := fmt.Sprintf("net%d", n)
		if g.Config[opt] == "" {
			continue
		}
		ip := g.Config[fmt.Sprintf("ipconfig%d", n)]
		if ip == "" {
			continue
		}
		mac := strings.ToLower(drive.ParseNet(e, w, opt, g.Config[opt])["macaddr"])
		fmt.Fprintf(&b, "    - type: physical\n      name: eth%d\n      mac_address: '%s'\n      subnets:\n", n, mac)
		subnet(&b, perl.Subvalue(ip, "ip", false), perl.Subvalue(ip, "gw", false), "")
		subnet(&b, perl.Subvalue(ip, "ip6", false), perl.Subvalue(ip, "gw6", false), "6")
	}
	servers := strings.Fields(g.Config["nameserver"])
	if len(servers) == 0 {
		servers = []string{"192.0.2.1"} // the node's own
	}
	b.WriteString("    - type: nameserver\n      address:\n")
	for _, a := range servers {
		fmt.Fprintf(&b, "      - '%s'\n", a)
	}
	if d := g.Config["searchdomain"]; d != "" {
		fmt.Fprintf(&b, "      search:\n      - '%s'\n", d)
	}
	return b.String()
}

func subnet(b *strings.Builder, ip, gateway, family string) {
	switch {
	case ip == "":
		return
	case ip == "dhcp":
		fmt.Fprintf(b, "      - type: dhcp%s\n", map[string]string{"": "4", "6": "6"}[family])
		return
	case ip == "auto":
		b.WriteString("      - type: ipv6_slaac\n")
		return
	case ip == "manual":
		return
	}
	prefix, err := netip.ParsePrefix(ip)
	if err != nil {
		return
	}
	if family == "6" {
		fmt.Fprintf(b, "      - type: static6\n        address: '%s'\n", ip)
	} else {
		mask := netip.PrefixFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), prefix.Bits()).Masked().Addr()
		fmt.Fprintf(b, "      - type: static\n        address: '%s'\n        netmask: '%s'\n", prefix.Addr(), mask)
	}
	if gateway != "" {
		fmt.Fprintf(b, "        gateway: '%s'\n", gateway)
	}
}
