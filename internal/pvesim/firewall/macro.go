package firewall

import (
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
)

// macro is a set of rules under one name: what it is for, and what each rule matches, as protocol/dport/sport.
type macro struct{ description, matches string }

// macros are those that every firewall knows (pve-firewall Firewall.pm, $pve_fw_macros and $pve_ipv6fw_macros).
var macros = map[string]macro{
	"Amanda":       {"Amanda Backup", "udp/10080 tcp/10080"},
	"Auth":         {"Auth (identd) traffic", "tcp/113"},
	"BGP":          {"Border Gateway Protocol traffic", "tcp/179"},
	"BitTorrent":   {"BitTorrent traffic for BitTorrent 3.1 and earlier", "tcp/6881:6889 udp/6881"},
	"BitTorrent32": {"BitTorrent traffic for BitTorrent 3.2 and later", "tcp/6881:6999 udp/6881"},
	"Ceph": {"Ceph Storage Cluster traffic (Ceph Monitors, OSD & MDS Daemons)",
		"tcp/6789 tcp/3300 tcp/6800:7300"},
	"Citrix":    {"Citrix/ICA traffic (ICA, ICA Browser, CGP)", "tcp/1494 udp/1604 tcp/2598"},
	"CVS":       {"Concurrent Versions System pserver traffic", "tcp/2401"},
	"DAAP":      {"Digital Audio Access Protocol traffic (iTunes, Rythmbox daemons)", "tcp/3689 udp/3689"},
	"DCC":       {"Distributed Checksum Clearinghouse spam filtering mechanism", "tcp/6277"},
	"DHCPfwd":   {"Forwarded DHCP traffic", "udp/67:68/67:68"},
	"DHCPv6":    {"DHCPv6 traffic", "udp/546:547/546:547"},
	"Distcc":    {"Distributed Compiler service", "tcp/3632"},
	"DNS":       {"Domain Name System traffic (upd and tcp)", "udp/53 tcp/53"},
	"Finger":    {"Finger protocol (RFC 742)", "tcp/79"},
	"FTP":       {"File Transfer Protocol", "tcp/21"},
	"Git":       {"Git distributed revision control traffic", "tcp/9418"},
	"GNUnet":    {"GNUnet secure peer-to-peer networking traffic", "tcp/2086 udp/2086 tcp/1080 udp/1080"},
	"GRE":       {"Generic Routing Encapsulation tunneling protocol", "47"},
	"HKP":       {"OpenPGP HTTP key server protocol traffic", "tcp/11371"},
	"HTTP":      {"Hypertext Transfer Protocol (WWW)", "tcp/80"},
	"HTTPS":     {"Hypertext Transfer Protocol (WWW) over SSL", "tcp/443"},
	"ICPV2":     {"Internet Cache Protocol V2 (Squid) traffic", "udp/3130"},
	"ICQ":       {"AOL Instant Messenger traffic", "tcp/5190"},
	"IMAP":      {"Internet Message Access Protocol", "tcp/143"},
	"IMAPS":     {"Internet Message Access Protocol over SSL", "tcp/993"},
	"IPIP":      {"IPIP capsulation traffic", "94"},
	"IPsec":     {"IPsec traffic", "udp/500/500 50"},
	"IPsecah":   {"IPsec authentication (AH) traffic", "udp/500/500 51"},
	"IPsecnat":  {"IPsec traffic and Nat-Traversal", "udp/500 udp/4500 50"},
	"IRC":       {"Internet Relay Chat traffic", "tcp/6667"},
	"Jetdirect": {"HP Jetdirect printing", "tcp/9100"},
	"L2TP":      {"Layer 2 Tunneling Protocol traffic", "udp/1701"},
	"LDAP":      {"Lightweight Directory Access Protocol traffic", "tcp/389"},
	"LDAPS":     {"Secure Lightweight Directory Access Protocol traffic", "tcp/636"},
	"Mail":      {"Mail traffic (SMTP, SMTPS, Submission)", "tcp/25 tcp/465 tcp/587"},
	"MDNS":      {"Multicast DNS", "udp/5353"},
	"MSNP":      {"Microsoft Notification Protocol", "tcp/1863"},
	"MSSQL":     {"Microsoft SQL Server", "tcp/1433"},
	"Munin":     {"Munin networked resource monitoring traffic", "tcp/4949"},
	"MySQL":     {"MySQL server", "tcp/3306"},
	"NeighborDiscovery": {"IPv6 neighbor solicitation, neighbor and router advertisement",
		"icmpv6/router-solicitation icmpv6/router-advertisement icmpv6/neighbor-solicitation icmpv6/neighbor-advertisement"},
	"NNTP":       {"NNTP traffic (Usenet).", "tcp/119"},
	"NNTPS":      {"Encrypted NNTP traffic (Usenet)", "tcp/563"},
	"NTP":        {"Network Time Protocol (ntpd)", "udp/123"},
	"OpenVPN":    {"OpenVPN traffic", "udp/1194"},
	"OSPF":       {"OSPF multicast traffic", "89"},
	"PCA":        {"Symantec PCAnywere (tm)", "udp/5632 tcp/5631"},
	"Ping":       {"ICMP echo request", "icmp/echo-request"},
	"PMG":        {"Proxmox Mail Gateway web interface", "tcp/8006"},
	"POP3":       {"POP3 traffic", "tcp/110"},
	"POP3S":      {"Encrypted POP3 traffic", "tcp/995"},
	"PostgreSQL": {"PostgreSQL server", "tcp/5432"},
	"PPtP":       {"Point-to-Point Tunneling Protocol", "47 tcp/1723"},
	"Printer":    {"Line Printer protocol printing", "tcp/515"},
	"Razor":      {"Razor Antispam System", "tcp/2703"},
	"Rdate":      {"Remote time retrieval (rdate)", "tcp/37"},
	"RDP":        {"Microsoft Remote Desktop Protocol traffic", "tcp/3389"},
	"RIP":        {"Routing Information Protocol (bidirectional)", "udp/520"},
	"RNDC":       {"BIND remote management protocol", "tcp/953"},
	"Rsync":      {"Rsync server", "tcp/873"},
	"SANE":       {"SANE network scanning", "tcp/6566"},
	"SixXS":      {"SixXS IPv6 Deployment and Tunnel Broker", "tcp/3874 udp/3740 41 udp/5072"},
	"SMB":        {"Microsoft SMB traffic", "udp/135 udp/137:139 udp/1024:65535/137 tcp/135"},
	"SMBswat":    {"Samba Web Administration Tool", "tcp/901"},
	"SMTP":       {"Simple Mail Transfer Protocol", "tcp/25"},
	"SMTPS":      {"Encrypted Simple Mail Transfer Protocol", "tcp/465"},
	"SNMP":       {"Simple Network Management Protocol", "udp/161:162 tcp/161"},
	"SPAMD":      {"Spam Assassin SPAMD traffic", "tcp/783"},
	"SPICEproxy": {"Proxmox VE SPICE display proxy traffic", "tcp/3128"},
	"Squid":      {"Squid web proxy traffic", "tcp/3128"},
	"SSH":        {"Secure shell traffic", "tcp/22"},
	"Submission": {"Mail message submission traffic", "tcp/587"},
	"SVN":        {"Subversion server (svnserve)", "tcp/3690"},
	"Syslog":     {"Syslog protocol (RFC 5424) traffic", "udp/514 tcp/514"},
	"Telnet":     {"Telnet traffic", "tcp/23"},
	"Telnets":    {"Telnet over SSL", "tcp/992"},
	"TFTP":       {"Trivial File Transfer Protocol traffic", "udp/69"},
	"Time":       {"RFC 868 Time protocol", "tcp/37"},
	"Trcrt":      {"Traceroute (for up to 30 hops) traffic", "udp/33434:33524 icmp/echo-request"},
	"VNC":        {"VNC traffic for VNC display's 0 - 99", "tcp/5900:5999"},
	"VNCL":       {"VNC traffic from Vncservers to Vncviewers in listen mode", "tcp/5500"},
	"Web":        {"WWW traffic (HTTP and HTTPS)", "tcp/80 tcp/443"},
	"Webcache":   {"Web Cache/Proxy traffic (port 8080)", "tcp/8080"},
	"Webmin":     {"Webmin traffic", "tcp/10000"},
	"Whois":      {"Whois (nicname, RFC 3912) traffic", "tcp/43"},
}

// listMacros is GET /cluster/firewall/macros.
func listMacros(*engine.Request) (any, error) {
	list := []any{}
	for _, name := range slices.Sorted(maps.Keys(macros)) {
		list = append(list, map[string]any{"macro": name, "descr": macros[name].description})
	}
	return list, nil
}

// verifyMacro gives the macro of a rule its usual spelling, and refuses what the macro says differently (Firewall.pm,
// verify_rule and $apply_macro).
func verifyMacro(rule map[string]string) error {
	asked := rule["macro"]
	if asked == "" {
		return nil
	}
	name := ""
	for known := range macros {
		if strings.EqualFold(known, asked) {
			name = known
		}
	}
	if name == "" {
		return perl.Invalid("macro", "unknown macro '"+asked+"'")
	}
	rule["macro"] = name
	for _, match := range strings.Fields(macros[name].matches) {
		parts := strings.Split(match, "/")
		for i, k := range []string{"proto", "dport", "sport"} {
			if i < len(parts) && rule[k] != "" && rule[k] != parts[i] {
				return perl.Invalid(k, "parameter '"+k+"' already define in macro (value = '"+parts[i]+"')")
			}
		}
	}
	return nil
}
