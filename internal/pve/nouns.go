package pve

// The nouns of the API. Each has a reader, with the requests that change nothing, and, where there is something to
// change, a client that embeds it. They are small values, made for one call.

// QEMUReader reads one VM on one node.
type QEMUReader struct {
	client *Client
	node   string
	vmid   int
}

// QEMUClient reads and changes one VM on one node.
type QEMUClient struct{ QEMUReader }

// GuestReader reads a guest of the cluster's listing, VM or container.
type GuestReader struct {
	client *Client
	guest  Resource
}

// NodeReader reads one node.
type NodeReader struct {
	client *Client
	node   string
}

// NodeClient reads one node and creates VMs there.
type NodeClient struct{ NodeReader }

// StorageReader reads a storage as one node sees it.
type StorageReader struct {
	client        *Client
	node, storage string
}

// StorageClient reads a storage and puts files on it.
type StorageClient struct{ StorageReader }

// VolumeReader reads one volume by way of a node. Its id is "storage:name".
type VolumeReader struct {
	client   *Client
	node, id string
}

// VolumeClient reads one volume, and frees it.
type VolumeClient struct{ VolumeReader }

// ClusterReader reads what the whole cluster shares.
type ClusterReader struct{ client *Client }

// ListingReader gives the cluster's listing of resources as its callers share it.
type ListingReader struct{ client *Client }

// PoolReader reads resource pools.
type PoolReader struct{ client *Client }

// PoolClient reads resource pools and changes their members.
type PoolClient struct{ PoolReader }

// AccessReader reads permissions.
type AccessReader struct{ client *Client }

// AccessClient reads permissions, and revokes them.
type AccessClient struct{ AccessReader }

// HAReader reads the HA configuration.
type HAReader struct{ client *Client }

// HAClient reads and changes the HA configuration.
type HAClient struct{ HAReader }

// FirewallReader reads the firewall of one VM.
type FirewallReader struct {
	client *Client
	node   string
	vmid   int
}

// FirewallClient reads and changes the firewall of one VM.
type FirewallClient struct{ FirewallReader }

// TaskReader reads tasks and waits for them.
type TaskReader struct{ client *Client }

// TaskClient reads tasks, waits for them and stops them.
type TaskClient struct{ TaskReader }

// QEMU is the VM with this id on a node.
func (c *Client) QEMU(node string, vmid int) QEMUClient {
	return QEMUClient{c.Reader().QEMU(node, vmid)}
}

// Guest is a guest of the cluster's listing, VM or container.
func (c *Client) Guest(guest Resource) GuestReader { return c.Reader().Guest(guest) }

// Node is the node of that name.
func (c *Client) Node(node string) NodeClient { return NodeClient{c.Reader().Node(node)} }

// Storage is a storage as a node sees it.
func (c *Client) Storage(node, storage string) StorageClient {
	return StorageClient{c.Reader().Storage(node, storage)}
}

// Volume is the volume with the id "storage:name", by way of a node.
func (c *Client) Volume(node, id string) VolumeClient {
	return VolumeClient{c.Reader().Volume(node, id)}
}

// Cluster is what the whole cluster shares.
func (c *Client) Cluster() ClusterReader { return c.Reader().Cluster() }

// Listing is the cluster's listing of resources as the callers share it.
func (c *Client) Listing() ListingReader { return c.Reader().Listing() }

// Pools are the resource pools.
func (c *Client) Pools() PoolClient { return PoolClient{c.Reader().Pools()} }

// Access is permissions.
func (c *Client) Access() AccessClient { return AccessClient{c.Reader().Access()} }

// HA is the HA configuration.
func (c *Client) HA() HAClient { return HAClient{c.Reader().HA()} }

// Firewall is the firewall of a VM.
func (c *Client) Firewall(node string, vmid int) FirewallClient {
	return FirewallClient{c.Reader().Firewall(node, vmid)}
}

// Tasks are the tasks of all nodes.
func (c *Client) Tasks() TaskClient { return TaskClient{c.Reader().Tasks()} }
