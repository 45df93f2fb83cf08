package lab

import "fmt"

// Case is one story of a user, told as data. Texts may hold the cluster's names: <node>, <storage>, <second>, <dir>, <lvm>, <bridge>,
// <template>, <pool>, <iso>, <import>, <mapping>, <esxi>, <appliance>, <backup>, <more than half> (of the free space on <lvm>) and <vmid+n>.
type Case struct {
	Name  string
	Needs []Need
	Steps []Step
}

// Need is something that not every cluster has.
type Need string

// The needs of cases beside a node, a storage and a bridge.
const (
	SecondStorage Need = "a second storage"
	Directory     Need = "a directory storage with images"
	ThickLVM      Need = "a storage of type lvm"
	LinkedClones  Need = "a storage with linked clones"
	ISO           Need = "an ISO image"
	ImportImage   Need = "a disk image for import"
	ImageURL      Need = "the address of a disk image"
	ESXi          Need = "a machine on an ESXi host"
	Appliance     Need = "an appliance"
	Backup        Need = "a backup of a small VM"
	PCIMapping    Need = "a PCI mapping"
	Guest         Need = "a template whose guest obeys"
	RootPassword  Need = "a password of root@pam"
	HA            Need = "high availability"
	Program       Need = "a Terraform program"
	Functions     Need = "a program that calls functions of providers"
)

// Act is the Terraform command of a step.
type Act string

// The acts. Apply is the zero value: it wants success, and an empty plan after it.
const (
	Apply    Act = ""
	Plan     Act = "plan"
	Destroy  Act = "destroy"
	Import   Act = "import"    // Address by ID
	Generate Act = "generate"  // the same by an import block, for which Terraform writes the configuration
	Forget   Act = "forget"    // terraform state rm Address
	Replace  Act = "replace"   // apply -replace=Address
	Stop     Act = "interrupt" // an apply that is interrupted as soon as the server is at work on it
)

// Step is one command of the user, the requests of others before it, and the conditions that hold after it.
type Step struct {
	Before  []Request         // by third parties
	Config  string            // "": as it was
	Set     map[string]string // variables of the configuration
	Act     Act
	Address string
	ID      string

	Fails string            // a pattern: the act fails, and says so
	Says  string            // a pattern: the act says so
	State map[string]string // attributes afterwards, "proxmox_vm.acc status", as patterns; "" is null
	Keep  map[string]string // variables that get the value of an attribute from then on
	Looks []Look            // reads of the server afterwards
	Power Power
}

// Request is a request by a third party, which has to succeed.
type Request struct {
	Method, Path string
	Params       map[string]string
	AsRoot       bool // by password
}

// Look is a question to the server.
type Look struct {
	Path  string // the path of the request; a guest's path below /nodes/<node>/qemu/ without that
	Field string // of the answer; "" is all of it, as JSON
	Want  string // a pattern; "" is nothing: no such field, or no such thing
}

// Power is what became of VM <vmid+0> in a step.
type Power string

// Steady is the same process before and after, Restarted another one.
const (
	AnyPower  Power = ""
	Steady    Power = "steady"
	Restarted Power = "restarted"
)

// acc is the resource of most cases, VM <vmid+0>, with the lines of a body. No guest answers a request to shut down in a VM with an
// empty disk.
func acc(body string) string {
	return fmt.Sprintf(`
resource "proxmox_vm" "acc" {
  node       = "<node>"
  vmid       = <vmid+0>
  on_destroy = { power_off = "force", timeout = "5s" }
  %s
}
`, body)
}

const accAddress = "proxmox_vm.acc"

// config looks at an option of VM <vmid+0>.
func config(option, want string) Look { return Look{"<vmid+0>/config", option, want} }

// gone wants VM <vmid+0> not to be there.
func gone() Look { return Look{"<vmid+0>/config", "", ""} }

// running and stopped look at the power of VM <vmid+0>.
func running() Look { return Look{"<vmid+0>/status/current", "status", "running"} }

func stopped() Look { return Look{"<vmid+0>/status/current", "status", "stopped"} }

// set is a third party's change of options of VM <vmid+0>.
func set(options map[string]string) Request {
	return Request{Method: "PUT", Path: "<vmid+0>/config", Params: options}
}
