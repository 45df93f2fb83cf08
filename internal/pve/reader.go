package pve

import (
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/transport"
)

// Reader is a Client without its writes: nothing that can be reached from it sends anything but GET. Code that only
// looks gets a Reader, so that the compiler keeps the promise. Its tasks can be waited for.
type Reader struct{ client *Client }

// Reader is the Client for code that only looks. It shares the Client's connections, listings and limits.
func (c *Client) Reader() Reader { return Reader{c} }

// Endpoint is the URL that requests go to, without a trailing slash and without /api2/json.
func (r Reader) Endpoint() string { return r.client.Endpoint() }

// Identity is the identity that the Client acts as.
func (r Reader) Identity() Identity { return r.client.Identity() }

// Authority is the id of the cluster's certificate authority; "" if no answer has shown it.
func (r Reader) Authority() string { return transport.Authority(r.client.conn) }

// ServerTime is the server's clock, as Client.ServerTime gives it.
func (r Reader) ServerTime() time.Time { return r.client.ServerTime() }

// QEMU is the VM with this id on a node.
func (r Reader) QEMU(node string, vmid int) QEMUReader { return QEMUReader{r.client, node, vmid} }

// Guest is a guest of the cluster's listing, VM or container.
func (r Reader) Guest(guest Resource) GuestReader { return GuestReader{r.client, guest} }

// Node is the node of that name.
func (r Reader) Node(node string) NodeReader { return NodeReader{r.client, node} }

// Storage is a storage as a node sees it.
func (r Reader) Storage(node, storage string) StorageReader {
	return StorageReader{r.client, node, storage}
}

// Volume is the volume with the id "storage:name", by way of a node.
func (r Reader) Volume(node, id string) VolumeReader { return VolumeReader{r.client, node, id} }

// Cluster is what the whole cluster shares.
func (r Reader) Cluster() ClusterReader { return ClusterReader(r) }

// Listing is the cluster's listing of resources as the callers share it.
func (r Reader) Listing() ListingReader { return ListingReader(r) }

// Pools are the resource pools.
func (r Reader) Pools() PoolReader { return PoolReader(r) }

// Access is permissions.
func (r Reader) Access() AccessReader { return AccessReader(r) }

// HA is the HA configuration.
func (r Reader) HA() HAReader { return HAReader(r) }

// Firewall is the firewall of a VM.
func (r Reader) Firewall(node string, vmid int) FirewallReader {
	return FirewallReader{r.client, node, vmid}
}

// Tasks are the tasks of all nodes.
func (r Reader) Tasks() TaskReader { return TaskReader(r) }
