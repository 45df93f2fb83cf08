package config

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

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
	}
	if c["ciuser"] == "root" {
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

// isNocloud reports whether the image has the form of nocloud; else it has that of configdrive2 (Cloudinit.pm,
// get_cloudinit_format).
func isNocloud(c map[string]string) bool {
	if c["citype"] != "" {
		return c["citype"] == "nocloud"
	}
	return !isWindows(c["ostype"])
}

// metaData names the instance by a digest of its data, so that a change of any part makes a new one (Cloudinit.pm,
// nocloud_gen_metadata and configdrive2_gen_metadata).
func metaData(e *engine.Engine, w *state.World, g *state.Guest) string {
	sum := sha1.Sum([]byte(userData(g, true) + networkData(e, w, g)))
	id := hex.EncodeToString(sum[:])
	if isNocloud(g.Config) {
		return "instance-id: " + id + "\n"
	}
	return "{\n     \"uuid\": \"" + id + "\",\n     \"network_config\": { \"content_path\": \"/content/0000\" }\n}\n"
}

// dnsOf are the name servers and the search domains of a guest: its own, else the node's (Cloudinit.pm, get_dns_conf).
func dnsOf(w *state.World, g *state.Guest) (servers, domains []string) {
	host := w.Nodes[g.Node].DNS()
	servers, domains = strings.Fields(g.Config["nameserver"]), strings.Fields(host.Search)
	if len(servers) == 0 {
		servers = host.Servers
	}
	if d, ok := g.Config["searchdomain"]; ok {
		domains = strings.Fields(d)
	}
	return servers, domains
}

// networkData is the configuration of the network in the form of the image.
func networkData(e *engine.Engine, w *state.World, g *state.Guest) string {
	if isNocloud(g.Config) {
		return nocloudNetwork(e, w, g)
	}
	return interfacesFile(w, g)
}

// interfacesFile is what a configdrive2 image has (Cloudinit.pm, configdrive2_network).
func interfacesFile(w *state.World, g *state.Guest) string {
	var b strings.Builder
	b.WriteString("auto lo\niface lo inet loopback\n\n")
	servers, domains := dnsOf(w, g)
	if len(servers) > 0 {
		fmt.Fprintf(&b, "        dns_nameservers %s\n", strings.Join(servers, " "))
	}
	if len(domains) > 0 {
		fmt.Fprintf(&b, "        dns_search %s\n", strings.Join(domains, " "))
	}
	for n := range 32 {
		ip := g.Config[fmt.Sprintf("ipconfig%d", n)]
		if g.Config[fmt.Sprintf("net%d", n)] == "" || ip == "" {
			continue
		}
		fmt.Fprintf(&b, "auto eth%d\n", n)
		stanza(&b, n, "inet", perl.Subvalue(ip, "ip", false), perl.Subvalue(ip, "gw", false))
		stanza(&b, n, "inet6", perl.Subvalue(ip, "ip6", false), perl.Subvalue(ip, "gw6", false))
	}
	return b.String()
}

// stanza is one family of an interface.
func stanza(b *strings.Builder, n int, family, ip, gateway string) {
	prefix, err := netip.ParsePrefix(ip)
	switch {
	case ip == "dhcp" || ip == "auto" && family == "inet6":
		fmt.Fprintf(b, "iface eth%d %s %s\n", n, family, ip)
		return
	case err != nil:
		return
	}
	mask := strconv.Itoa(prefix.Bits())
	if family == "inet" {
		mask = netmask(prefix)
	}
	fmt.Fprintf(b, "iface eth%d %s static\n        address %s\n        netmask %s\n", n, family, prefix.Addr(), mask)
	if gateway != "" {
		fmt.Fprintf(b, "        gateway %s\n", gateway)
	}
}

func netmask(p netip.Prefix) string {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), p.Bits()).Masked().Addr().String()
}

// nocloudNetwork is the network configuration of a nocloud image, version 1 (Cloudinit.pm, nocloud_network).
func nocloudNetwork(e *engine.Engine, w *state.World, g *state.Guest) string {
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
	servers, domains := dnsOf(w, g)
	b.WriteString("    - type: nameserver\n      address:\n")
	for _, a := range servers {
		fmt.Fprintf(&b, "      - '%s'\n", a)
	}
	if len(domains) > 0 {
		b.WriteString("      search:\n")
	}
	for _, d := range domains {
		fmt.Fprintf(&b, "      - '%s'\n", d)
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
		fmt.Fprintf(b, "      - type: static\n        address: '%s'\n        netmask: '%s'\n", prefix.Addr(), netmask(prefix))
	}
	if gateway != "" {
		fmt.Fprintf(b, "        gateway: '%s'\n", gateway)
	}
}
