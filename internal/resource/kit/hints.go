package kit

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"syscall"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
)

// DestroyedFirst is the part of a schema's description about the destroy of an object that VMs refer to.
const DestroyedFirst = "Terraform destroys it, " +
	"also for a replacement, before it changes a VM that has referred to it, " +
	"and the destroy is refused as long as a VM uses it. With `lifecycle { create_before_destroy = true }` the VM is " +
	"changed first; one that is replaced needs the setting in its own block. Where the block is to leave the " +
	"configuration, an apply must have seen this setting before."

// hints returns the next steps that follow from the kind of an error.
func (a Attempt) hints(err error) []string {
	var all []string
	switch {
	case LoginRefused(err):
		who := "the provider"
		if a.As.Name != "" {
			who = a.As.Name
		}
		return []string{"The server refused the credentials of " + who + " (HTTP status 401). Next step: check the API " +
			"token (api_token, PROXMOX_VE_API_TOKEN), or user name and password (username, PROXMOX_VE_USERNAME; password, " +
			"PROXMOX_VE_PASSWORD), and whether they have expired or are disabled."}
	case errors.Is(err, context.DeadlineExceeded):
		all = append(all, "The time allowed for this operation is over. The timeouts attribute allows more.")
	case errors.Is(err, context.Canceled):
		if notBegun := (*saga.NotBegunError)(nil); !errors.As(err, &notBegun) { // it says that itself
			all = append(all, "The operation was interrupted.")
		}
	}
	var locked *request.LockedError
	if errors.As(err, &locked) { // it says itself what holds the lock and what to do
		return all
	}
	var identity *guest.IdentityError
	if errors.As(err, &identity) {
		return append(all, a.anotherVM(identity)...)
	}
	var task *pve.TaskError
	if errors.As(err, &task) && task.Killed() {
		return append(all, "The worker of the task ended without a message: it was killed, or the node went down.")
	}
	var used *guard.InUseError
	if a.Shared && a.Verb == "destroy" && errors.As(err, &used) {
		return append(all, a.givenUp())
	}
	if fault.IsProtected(err) {
		return append(all, "Next step: set protection = false and apply, then make this change.")
	}
	if a.Verb != "create" && fault.IsGuestGone(err, a.VMID) {
		return append(all, fmt.Sprintf("VM %d is gone from its node since the plan: a third party has destroyed or moved "+
			"it. Next step: plan again. Its refresh finds a VM that was moved, and takes one that is gone out of the state, "+
			"so that the plan shows a create.", a.VMID))
	}
	if steps, ok := connectionHints(err); ok {
		return append(all, steps...)
	}
	return append(all, a.ofKind(err)...)
}

// ofKind is the next step that follows from the kind alone.
func (a Attempt) ofKind(err error) []string {
	hint, ok := kindHint(pve.KindOf(err))
	if !ok {
		return nil
	}
	if _, isVM := a.attribute("on_orphaned_volumes"); isVM && a.Verb == "create" && pve.IsKind(err, pve.Leftover) {
		hint += " A create removes such volumes itself where on_orphaned_volumes is \"destroy\"."
	}
	return []string{hint}
}

// givenUp is the next step where a VM uses the object that is destroyed. The provider cannot tell which configuration
// has that VM.
func (a Attempt) givenUp() string {
	keep := ""
	if _, ok := a.At.Attribute("on_destroy"); ok {
		keep = "on_destroy = \"keep\" in an apply before the destroy, or "
	}
	return "If the VM is in this configuration: Terraform destroys a resource before it changes a VM that has referred " +
		"to it, so this also happens where the same apply takes it out of the VM. Next step: give the block of this " +
		"resource lifecycle { create_before_destroy = true }, put the block back if it is gone, and apply. The VM is " +
		"changed first then (one that is replaced needs the setting in its own block), and a later apply can do without " +
		"the block. If it is in another one: " + keep +
		"\"terraform state rm\" of this resource's address leaves to it what it uses."
}

// anotherVM are the next steps where another VM has the id of the one in state. Each cluster has a VM 100. To adopt
// that VM is no way out where it is on another node than the state has: it is a third party's, which the next destroy
// would destroy.
func (a Attempt) anotherVM(e *guest.IdentityError) []string {
	at := "the endpoint"
	if a.As.Endpoint != "" {
		at += " " + a.As.Endpoint
	}
	isElsewhere := e.Home != "" && e.Home != e.Node
	first := "It was not touched. First check that " + at + " is that of the cluster which the state is about: VMs of " +
		"two clusters have the same ids. If it is not, correct it, and do none of the following."
	if isElsewhere {
		first = fmt.Sprintf("It was not touched. The state has VM %d on node %s, and this one is on node %s, so %s may be "+
			"that of another cluster. If it is, correct it, and do none of the following.", e.VMID, e.Home, e.Node, at)
	}
	const forget = "forget the old VM with \"terraform state rm\" of this resource's address: the next apply makes a " +
		"new one under a free vmid."
	second := "Otherwise a third party removed the VM in state and made another one under the same id, or its uuid was " +
		"changed, as by an apply that was killed. "
	if isElsewhere {
		return []string{first, second + "Then " + forget}
	}
	return []string{first, second + "Two ways out. Either " + forget + " Or do that and then adopt the VM that is there " +
		fmt.Sprintf("now, with \"terraform import\" of the same address and the id %s/%d.", e.Node, e.VMID)}
}

// LoginRefused reports whether PVE did not accept the provider's credentials at all.
func LoginRefused(err error) bool {
	var answer *pve.Error
	return errors.As(err, &answer) && answer.Status == http.StatusUnauthorized && !answer.Foreign
}

// Unreachable reports whether no server of PVE answered at all, not even one that cannot reach a node.
func Unreachable(err error) bool {
	var answer *pve.Error
	return errors.As(err, &answer) && answer.Kind != pve.Ambiguous &&
		(answer.Foreign || answer.Status == 0 && answer.Kind == pve.Unavailable)
}

// connectionHints are the next steps where the way to the server is the cause: one of each kind where several endpoints
// failed. They are false for any other error.
func connectionHints(err error) (steps []string, isCause bool) {
	var answer *pve.Error
	if !errors.As(err, &answer) {
		return nil, false
	}
	lost := ""
	if answer.Kind == pve.Ambiguous && answer.Method != http.MethodGet {
		lost, _ = kindHint(pve.Ambiguous)
	}
	switch {
	case answer.Foreign:
		steps = []string{foreignHint(answer.Status)}
	case answer.Wordless:
		steps = []string{"Before pve-http-server 5.2.0 (PVE 8.4 has it) PVE says why in the HTTP reason phrase alone. A " +
			"proxy that speaks HTTP/2 drops that, and the provider cannot tell a VM that is gone from one that is locked. " +
			"Next step: let " + endpoint + " be a node itself, or update PVE."}
	case answer.Status == statusNoNode:
		steps = []string{"A server of PVE answered, and could not connect to the node. Next step: check that the node is " +
			"up and that pveproxy runs on it, then apply again."}
	case answer.Status > statusNoNode:
		steps = []string{"The node that the request is for gave no answer, or none within 30 seconds. Next step: check the " +
			"load of the node, and whether one of its storages hangs, then apply again."}
	case Unreachable(err):
		for _, each := range unjoin(answer.Err) {
			if step := networkHint(each); !slices.Contains(steps, step) {
				steps = append(steps, step)
			}
		}
	default:
		return nil, false
	}
	if lost != "" {
		steps = append([]string{lost}, steps...)
	}
	return steps, true
}

// statusNoNode is pveproxy's where it cannot connect to a node; the statuses above it are those of an answer that it
// waited for in vain (AnyEvent::HTTP).
const statusNoNode = 595

// foreignHint is the next step where something in front of PVE answered.
func foreignHint(status int) string {
	const direct = "or let the endpoint (endpoint, PROXMOX_VE_ENDPOINT) be a node itself: https://pve1.example.com:8006."
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusProxyAuthRequired:
		return fmt.Sprintf("A proxy or firewall refused the request before PVE saw it (HTTP status %d), so privileges in "+
			"PVE are not the cause. Next step: have it admit this machine, %s", status, direct)
	case status >= http.StatusInternalServerError, status == http.StatusTooManyRequests:
		return fmt.Sprintf("A proxy or load balancer in front of PVE answered (HTTP status %d). Next step: look at its log "+
			"for its connection to PVE, %s", status, direct)
	}
	return fmt.Sprintf("No server of PVE answered (HTTP status %d). Next step: correct the endpoint's scheme, host, port "+
		"and path, %s", status, direct)
}

const endpoint = "the endpoint (endpoint, PROXMOX_VE_ENDPOINT)"

// networkHint is the next step where there was no answer.
func networkHint(err error) string {
	var (
		record  tls.RecordHeaderError
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
		trust   *tls.CertificateVerificationError
		unknown x509.UnknownAuthorityError
		host    *net.DNSError
		dial    *net.OpError
		patient net.Error
	)
	switch {
	case errors.As(err, &record):
		return "The server speaks no TLS on this port. Next step: correct the port in " + endpoint + ": PVE's is 8006."
	case errors.As(err, &name):
		return "Next step: give " + endpoint + " a name or an address that is in the server's certificate."
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "Next step: check the clock of this machine. If it is right, renew the certificates as root on the node: " +
			"pvecm updatecerts --force"
	case errors.As(err, &trust), errors.As(err, &unknown), errors.As(err, &invalid):
		return "Next step: give the provider the certificate of the cluster's authority, the content of " +
			"/etc/pve/pve-root-ca.pem on a node (ca_certificate, PROXMOX_VE_CA_CERTIFICATE)."
	case errors.As(err, &dial) && dial.Op == "proxyconnect":
		return "Next step: check the proxy that the environment sets (HTTPS_PROXY), or except the host of the endpoint " +
			"from it (NO_PROXY)."
	case errors.As(err, &host) && host.IsNotFound:
		return "This machine does not know the host name. Next step: correct the host in " + endpoint +
			", or add the name to DNS."
	case errors.As(err, &host):
		return "The name server of this machine did not answer. Next step: check it, then apply again."
	case errors.Is(err, syscall.ECONNREFUSED):
		return "Nothing listens there. Next step: correct the host and the port in " + endpoint + ": PVE's port is 8006. " +
			"If they are right, start the server as root on the node: systemctl start pveproxy"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.As(err, &patient) &&
		patient.Timeout():
		return "Next step: check that the node is up, and the route from this machine to it (VPN, firewall), then apply " +
			"again."
	}
	step, _ := kindHint(pve.Unavailable)
	return step
}

func kindHint(kind pve.Kind) (string, bool) {
	switch kind {
	case pve.Denied:
		return "Next step: give the identity of the provider the privilege that PVE names, or use one that has it.", true
	case pve.Locked:
		return "Next step: wait for the task that holds the lock; a lock that no task holds is removed by \"qm unlock " +
			"<vmid>\" as root on the node.", true
	case pve.Unavailable:
		return "Next step: check that the node is up and that the endpoint is right, then apply again.", true
	case pve.Unhealthy:
		return "Next step: bring the node, the storage or the quorum back, then apply again.", true
	case pve.Capacity:
		return "Next step: make room, or choose another storage or node.", true
	case pve.Ambiguous:
		return "The answer of the server was lost, so the request may or may not have been carried out. Next step: run " +
			"Terraform again, which looks first.", true
	case pve.Leftover:
		return "Next step: find the owner of the volume. If it is not needed, remove it, then apply again.", true
	case pve.DigestMismatch:
		return "A third party changed the configuration at the same time. Next step: apply again.", true
	default:
		return "", false
	}
}
