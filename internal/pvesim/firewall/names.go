package firewall

import (
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
)

// macros are the names of the macros (pve-firewall Firewall.pm, $pve_fw_macros).
const macros = `Amanda Auth BGP BitTorrent BitTorrent32 Ceph CVS Citrix DAAP DCC DHCPfwd DNS Distcc FTP Finger
	GNUnet GRE Git HKP HTTP HTTPS ICPV2 ICQ IMAP IMAPS IPIP IPsec IPsecah IPsecnat IRC Jetdirect L2TP
	LDAP LDAPS MSNP MSSQL Mail MDNS Munin MySQL NNTP NNTPS NTP OSPF OpenVPN PCA PMG POP3 POP3S PPtP Ping
	PostgreSQL Printer RDP RIP RNDC Razor Rdate Rsync SANE SMB SMBswat SMTP SMTPS SNMP SPAMD SSH SVN
	SixXS SPICEproxy Squid Submission Syslog TFTP Telnet Telnets Time Trcrt VNC VNCL Web Webcache Webmin
	Whois`

// icmp4Types are the types of ICMP messages (Firewall.pm, $icmp_type_names).
const icmp4Types = `any echo-reply destination-unreachable network-unreachable host-unreachable protocol-unreachable
	port-unreachable fragmentation-needed source-route-failed network-unknown host-unknown
	network-prohibited host-prohibited TOS-network-unreachable TOS-host-unreachable
	communication-prohibited host-precedence-violation precedence-cutoff source-quench redirect
	network-redirect host-redirect TOS-network-redirect TOS-host-redirect echo-request
	router-advertisement router-solicitation time-exceeded ttl-zero-during-transit
	ttl-zero-during-reassembly parameter-problem ip-header-bad required-option-missing timestamp-request
	timestamp-reply address-mask-request address-mask-reply`

// icmp6Types are those of ICMPv6 (Firewall.pm, $icmpv6_type_names).
const icmp6Types = `destination-unreachable no-route communication-prohibited beyond-scope address-unreachable
	port-unreachable failed-policy reject-route packet-too-big time-exceeded ttl-zero-during-transit
	ttl-zero-during-reassembly parameter-problem bad-header unknown-header-type unknown-option
	echo-request echo-reply router-solicitation router-advertisement neighbor-solicitation
	neighbour-solicitation neighbor-advertisement neighbour-advertisement redirect`

// services are the names of ports in /etc/services of Debian's netbase (Firewall.pm, get_etc_services).
const services = `acr-nema afpovertcp afs3-bos afs3-callback afs3-fileserver afs3-kaserver afs3-prserver afs3-rmtsys
	afs3-update afs3-vlserver afs3-volser amanda amandaidx amidxtape amqp amqps asf-rmcp asp auth babel
	bacula-dir bacula-fd bacula-sd bbs bgp bgpd biff binkp bootpc bootps canna cfengine chargen
	cisco-sccp clc-build-daemon clearcase cmip-agent cmip-man codaauth2 codasrv codasrv-se csync2
	cvspserver daap datametrics daytime db-lsp dcap dhcpv6-client dhcpv6-server dicom dict dircproxy
	discard distcc domain domain-s echo epmap epmd exec f5-globalsite f5-iquery fax fido finger
	font-service freeciv fsp ftp ftp-data ftps ftps-data gdomap gds-db git gnunet gnutella-rtr
	gnutella-svc gopher gpsd gris groupwise gsidcap gsiftp gsigatekeeper hkp http http-alt https hylafax
	iax icpv2 imap2 imaps ingreslock ipp iprop ipsec-nat-t ipx ircd ircs-u isakmp iscsi-target isisd
	isns iso-tsap kamanda kerberos kerberos-adm kerberos-master kerberos4 kermit klogin kpasswd krb-prop
	kshell l2f ldap ldaps ldp login lotusnote mailq mdns microsoft-ds moira-db moira-update moira-ureg
	mon ms-sql-m ms-sql-s ms-wbt-server mtn munin mysql mysql-proxy nbd nbp netbios-dgm netbios-ns
	netbios-ssn netstat nfs nntp nntps nqs nrpe nsca ntalk ntp ntske nut omniorb openvpn ospf6d ospfapi
	ospfd passwd-server pawserv pop3 pop3s poppassd postgresql predict printer proofd ptp-event
	ptp-general puppet qmqp qmtp qotd radius radius-acct radmin-port redis remctl ripd ripngd
	rmiregistry rmtcfg rootd route rpc2portmap rplay rsync rtcm-sc104 rtmp rtsp sa-msg-port saft
	sane-port sge-execd sge-qmaster sgi-cad sgi-cmsd sgi-crsd sgi-gcd shell sieve silc sip sip-tls
	skkserv smtp smux snmp snmp-trap snpp socks spamd ssh submission submissions sunrpc supfiledbg
	supfilesrv suucp svn svrloc syslog syslog-tls sysrqd systat tacacs talk tcpmux telnet telnets tfido
	tftp time tinc tproxy uucp venus venus-se webmin who whois wnn6 x11 x11-1 x11-2 x11-3 x11-4 x11-5
	x11-6 x11-7 xdmcp xinetd xmms2 xmpp-client xmpp-server xtel xtelw z3950 zabbix-agent zabbix-trapper
	zebra zebrasrv zephyr-clt zephyr-hm zephyr-srv zip zope zope-ftp zserv`

// isOneOf reports whether a name is one of a list's.
func isOneOf(list, name string) bool { return slices.Contains(strings.Fields(list), name) }

// isMacro compares without regard to case, as PVE does.
func isMacro(name string) bool {
	return slices.ContainsFunc(strings.Fields(macros), func(m string) bool { return strings.EqualFold(m, name) })
}

// verifyICMPType refuses a type that is none, or none of the rule's protocol (Firewall.pm,
// pve_fw_verify_icmp_type_spec, verify_rule).
func verifyICMPType(rule map[string]string) error {
	typ, proto := rule["icmp-type"], rule["proto"]
	if typ == "" {
		return nil
	}
	if !isOneOf(icmp4Types, typ) && !isOneOf(icmp6Types, typ) {
		return perl.Invalid("icmp-type", "invalid format - invalid icmp-type value '"+typ+"'\n")
	}
	list := icmp6Types
	switch {
	case !slices.Contains(icmpProtocols, proto):
		return perl.Invalid("proto", "missing property - 'icmp-type' requires this property")
	case rule["dport"] != "":
		return perl.Invalid("icmp-type", "'icmp-type' cannot be specified together with 'dport'")
	case proto == "icmp":
		list = icmp4Types
	}
	if !isOneOf(list, typ) {
		return perl.Invalid("icmp-type", "invalid icmp-type '"+typ+"' for proto '"+proto+"'")
	}
	return nil
}

// portFault is what is wrong with a list of ports, "" for nothing (Firewall.pm, parse_port_name_number_or_range).
func portFault(list string, icmp bool) string {
	count := 0
	for item := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(item, ":")
		low, errLow := strconv.ParseUint(first, 10, 64)
		high, errHigh := strconv.ParseUint(last, 10, 64)
		switch {
		case item == "":
			return "extraneous commas in list"
		case isRange && errLow == nil && errHigh == nil:
			count += 2
			if low > 65535 || high > 65535 {
				return "invalid port '" + strconv.FormatUint(max(low, high), 10) + "'"
			}
			if low > high {
				return "backwards range '" + item + "' not allowed, did you mean '" + last + ":" + first + "'?"
			}
		case !isRange && errLow == nil:
			count++
			if low > 65535 {
				return "invalid port '" + item + "'"
			}
		case icmp && (isOneOf(icmp4Types, item) || isOneOf(icmp6Types, item)):
		case !isOneOf(services, item):
			return "invalid port '" + item + "'"
		}
	}
	if count > 15 {
		return "too many entries in port list (> 15 numbers)"
	}
	return ""
}
