package preflight

import (
	"fmt"
	"slices"
	"strings"
)

// Severity is the effect of a finding on a plan.
type Severity string

// Refused is for what the server would certainly refuse, or what would certainly fail; Doubtful for what may.
const (
	Refused  Severity = "error"
	Doubtful Severity = "warning"
)

// Rule is one way in which a plan can be wrong: how bad that is, its message, where it is read and why that suffices.
type Rule struct {
	Name     string
	Severity Severity
	Summary  string // with "…" for the subject
	Read     string
	Because  string
}

// The names of the rules that this package says itself.
const (
	cannotLookAtAll = "cluster"
	noQuorum        = "quorum"
	nodeSilent      = "silent node"
	nodeMaintained  = "maintenance"
	nodeCPUs        = "CPUs"
	nodeMemory      = "memory"
	guestPaused     = "paused guest"
	vmidTaken       = "VMID"
	vmidOfNamesake  = "VMID of a namesake"
	vmidVolumes     = "orphans"
	vmidForeign     = "foreign volumes"
	vmidDestroys    = "destroyed volumes"
	sourceUntold    = "source"
	sourceMarked    = "unfinished source"
	sourceAway      = "source's node"
	sourceUnread    = "unread source"
	sourceLocked    = "source's lock"
	sourceWritten   = "source in use"
	sourceMayStop   = "source in use until then"
	linkedElsewhere = "linked clone"
	notLikeThis     = "clone's shape"
	driveGoes       = "cloud-init drive"
	diskGoes        = "displaced disk"
	cloneRefused    = "clone's storages"
	snapshotMissing = "clone's snapshot"
	tpmRuns         = "clone's TPM state"
	notRestored     = "restored shape"
	notMigrated     = "migration"
	renamedOnTheWay = "names on the way"
	copiedMeanwhile = "originals of copies"
	movesAlong      = "guests moved along"
	keptApart       = "guests kept apart"
	snapshotKeeps   = "snapshots"
	snapshotForbids = "snapshots of a template"

	replicationRefuses  = "replication"
	replicatedElsewhere = "replication target"
	storageUnknown      = "unknown storage"
	storageElsewhere    = "storage elsewhere"
	storageDown         = "inactive storage"
	storageNoDisks      = "content type"
	storageFormat       = "format"
	machineTooOld       = "machine too old"
	storageTooSmall     = "disks too large"
	storageSpace        = "space"
	poolUnknown         = "pool"
	bridgeUnknown       = "unusable bridge"
	bridgeUnlisted      = "unlisted bridge"
	bridgeUnfit         = "unfit bridge"
	volumeMissing       = "volume"
	nameUnknown         = "name"
	mappingElsewhere    = "mapping elsewhere"
	imageTooLarge       = "image"
	backupDenied        = "denied backup"
	backupUnread        = "unread backup"
	backupStorages      = "backup's storages"
	privilegeMissing    = "privilege"

	privilegesMissing = "privileges"
)

const listing = "the listing"

const newNames = "a migration gives disks new names, unless they are on a shared storage (qemu-server QemuServer.pm, " +
	"vm_migrate_alloc_nbd_disks)"

const (
	ownPrivileges = "`GET /access/permissions`, of which PVE tells everybody his own"
	askedAgain    = "PVE asks for it on that path; it is asked for once more, on that path alone"
)

const (
	copyRefused = "… of VM … is a copy of a disk that the same apply moves or destroys"
	copiesFail  = "a copy by a name that another disk has by then is of that one, and one that QEMU refuses is not " +
		"kept"
)

// Rules is the table, in the order of the documentation. Package guest reports the rows without a name.
func Rules() []Rule {
	return slices.Concat(rulesOfPlaces(), rulesOfSources(), rulesOfMoves(), rulesOfObjects())
}

// rulesOfPlaces are about the place of a VM.
func rulesOfPlaces() []Rule {
	const content = "`GET …/storage/S/content`"
	return []Rule{
		{cannotLookAtAll, Refused, "Cannot look at the cluster", listing, "nothing can be planned without it"},
		{noQuorum, Refused, "The cluster has no quorum", "`GET /cluster/status`, where the listing has a node that is " +
			"not online", "PVE writes nothing without (pve-cluster Cluster.pm, check_cfs_quorum)"},
		{"", Refused, "Unknown node \"…\"", listing, "it shows everybody all nodes"},
		{"", Refused, "Node … is not online", listing, "PVE hands on no request to a node that the cluster does not see"},
		{"", Refused, "None of the nodes is online", listing, "the same"},
		{"", Refused, "No node given", listing, "the cluster has several"},
		{nodeSilent, Doubtful, "Node … does not report", listing,
			"its status service is stuck, mostly since a storage hangs; it does what it is told"},
		{nodeMaintained, Doubtful, "Node … is in maintenance", "the listing, since PVE 8.3",
			"PVE still runs VMs there; HA moves those that it manages elsewhere"},
		{nodeCPUs, Refused, "Node … has … CPUs", "the listing, with `Sys.Audit` on the node",
			"PVE starts no VM with more"},
		{nodeMemory, Doubtful, "Node … may run out of memory", "the listing, with `Sys.Audit` on the node",
			"memory may be overcommitted, and the node's caches can be freed"},
		{guestPaused, Doubtful, "VM … is paused and cannot be shut down", listing,
			"PVE refuses (qemu-server API2/Qemu.pm, vm_shutdown), unless the guest goes on by then"},

		{vmidTaken, Refused, "VMID … is taken", listing, "unless a VM of the same name has it, and none is replaced"},
		{vmidOfNamesake, Doubtful, "VMID … is taken by a VM of the same name", listing,
			"unless it is replaced, or a dead create left it; the same apply may destroy it first"},
		{vmidVolumes, Refused, "Volumes of another VM … are still there", content, "the create would refuse them"},
		{vmidForeign, Refused, "Volumes with VMID … may have an owner elsewhere", content,
			"`on_orphaned_volumes = \"destroy\"` destroys no volume that another guest uses, or that may be another " +
				"cluster's or program's"},
		{vmidDestroys, Doubtful, "Volumes with VMID … will be destroyed", content,
			"a plan names what it destroys; another volume may come until the apply"},
	}
}

// rulesOfSources are about the VM that is cloned, and the backup that is restored.
func rulesOfSources() []Rule {
	return []Rule{
		{"", Refused, "No VM to clone", listing, "who does not see the source cannot read what it is"},
		{"", Refused, "Several VMs to clone", listing, "one is meant"},
		{sourceUntold, Doubtful, "Another VM may be the one to clone",
			"the listing; `GET …/qemu/N/config` of VMs that it has no name of",
			"nothing tells the names of VMs whose node is away, nor whether they are templates"},
		{sourceMarked, Doubtful, "VM … is not finished", "the source's configuration",
			"the apply waits for a create that is at work on it, and refuses the clone where none is"},
		{sourceAway, Refused, "VM … cannot be cloned, since its node … is not online", listing,
			"PVE hands on no request to it"},
		{sourceUnread, Doubtful, "VM … could not be read to clone it", "the source's configuration",
			"it may be read by the time of the apply"},
		{sourceLocked, Doubtful, "VM … cannot be cloned while it is locked",
			"the source's configuration; where it has a lock, the tasks of its node and `GET /access/permissions`",
			"no task is seen to hold the lock; it may end by the time of the apply"},
		{"", Refused, "VM … cannot be cloned to node …", "the listing, the source's configuration",
			"PVE clones neither way (qemu-server API2/Qemu.pm, clone_vm)"},
		{linkedElsewhere, Refused, "A linked clone stays where its template is", listing, "PVE refuses storage and format"},
		{notLikeThis, Refused, "VM … cannot be cloned like this", "the source's configuration",
			"a disk would shrink, has no storage, or would leave its slot; there is no such device to boot from; only root " +
				"may copy a device of a node"},
		{driveGoes, Doubtful, "The copy has no cloud-init drive", "the configuration of the source, or in the backup",
			"another drive is configured in its slot, which may be meant"},
		{diskGoes, Doubtful, "The disk that the copy has in … is detached", "the configuration of the source, or in the " +
			"backup", "`imported_disk` puts another volume into its slot, which may be meant"},
		{cloneRefused, Refused, "PVE makes no such clone of VM …", "`GET …/qemu/N/feature`, where a snapshot is cloned, or " +
			"the source's configuration does not show that it works", "PVE's own answer, by which clone_vm decides"},
		{snapshotMissing, Refused, "VM … has no snapshot \"…\"", "the same; `GET …/qemu/N/snapshot`", "PVE has just said " +
			"so, and no `proxmox_vm_snapshot` of the run takes one of that VM"},
		{tpmRuns, Refused, "VM … runs and has a TPM state", "the source's configuration; its status",
			"PVE refuses a full clone (qemu-server API2/Qemu.pm, clone_vm)"},
		{sourceWritten, Refused, "… cannot be copied while a guest runs with it", "the configuration of the VM that holds " +
			"it; where that is one of a `proxmox_disk`, those of the guests that reach the volume",
			"PVE asks the holder alone whether it runs (qemu-server API2/Qemu.pm, $import_from_volid, clone_vm)"},
		{sourceMayStop, Doubtful, "… may be copied while a guest runs with it", "the same",
			"the same apply changes that guest, and may stop it or take the disk from it first"},
		{notRestored, Refused, "The backup cannot be restored like this", "the configuration in the backup", "the same"},
		{backupDenied, Refused, "This identity may not read the backup …", "the configuration in the backup",
			"a restore takes the same"},
		{backupUnread, Doubtful, "The backup could not be read", "the configuration in the backup",
			"it may be there by the time of the apply"},
		{backupStorages, Refused, "The disks in the backup were on storages that are not on node …",
			"the configuration in the backup", "PVE puts them where they were"},
	}
}

// rulesOfMoves are about VMs and disks that leave their place.
func rulesOfMoves() []Rule {
	return []Rule{
		{notMigrated, Refused, "VM … cannot be migrated to node …", "`GET …/qemu/N/migrate`",
			"PVE's own list of what stands in the way"},
		{renamedOnTheWay, Refused, "The volume for … of VM … may have another name on node …", listing, newNames},
		{copiedMeanwhile, Refused, copyRefused, "the plan; `GET /storage` where two names may be one disk", copiesFail},
		{movesAlong, Doubtful, "HA moves other guests to node … with VM …", "`GET …/qemu/N/migrate`",
			"a plan names what it moves; a rule, which may be a third party's, keeps them together"},
		{keptApart, Doubtful, "HA keeps VM … off node …", "`GET …/qemu/N/migrate`",
			"HA refuses (pve-ha-manager CLI/ha_manager.pm), unless the same apply first moves the other or changes the rule"},
		{snapshotKeeps, Doubtful, "A snapshot keeps … of VM … on …",
			"`GET …/qemu/N/snapshot` where a disk changes its storage or is destroyed; `GET …/qemu/N/migrate`",
			"PVE refuses (API2/Qemu.pm move_vm_disk, QemuMigrate.pm), unless the same apply removes the snapshot first"},
		{snapshotForbids, Doubtful, "VM … has snapshots and cannot become a template", "`GET …/qemu/N/snapshot`",
			"PVE refuses (API2/Qemu.pm template), unless the same apply removes them first"},
		{replicationRefuses, Doubtful, "VM … is replicated and gets no … of this kind",
			"`GET /cluster/replication`, where a new disk is on a storage of one node that is not ZFS",
			"PVE refuses (API2/Qemu.pm update_vm_api), unless the job is removed first"},
		{replicatedElsewhere, Doubtful, "VM … is replicated, and is not migrated to node … while it runs",
			"`GET /cluster/replication`, where a running VM is to migrate",
			"PVE refuses (API2/Qemu.pm migrate_vm), unless its jobs are changed first"},
	}
}

// rulesOfObjects are about what a plan names.
func rulesOfObjects() []Rule {
	const network, content = "`GET /nodes/N/network`", "`GET …/storage/S/content`"
	return []Rule{
		{storageUnknown, Refused, "Unknown storage \"…\"", "the listing, with `Datastore.Audit` on the storage",
			"who holds that would see it"},
		{storageElsewhere, Refused, "Storage … is not on node …", listing,
			"it is disabled there, or not for that node, and seen on others"},
		{storageDown, Refused, "Storage … does not work on node …",
			"`GET /nodes/N/storage`, where the listing has no figures of it",
			"the node has just tried; PVE makes no disk there, and reads no image, medium or backup"},
		{storageNoDisks, Refused, "Storage … is not for disks", listing,
			"PVE makes disks only where the content type is images"},
		{storageFormat, Refused, "There is no format … on storage …", listing,
			"its type has raw disks only, or an imported vmdk is to grow"},
		{machineTooOld, Refused, "Machine … cannot run from storage …",
			"`GET /storage`, where a qcow2 disk meets a machine before 10.0",
			"PVE starts no such guest (qemu-server QemuServer.pm, print_drive_commandline_full)"},
		{storageTooSmall, Refused, "The disks are larger than storage …", listing,
			"its type sets the space aside at once, and one VM wants more than it has in all"},
		{storageSpace, Doubtful, "Storage … may run out of space", listing,
			"most types take space when it is written to, and something may be freed before"},
		{poolUnknown, Refused, "Unknown pool \"…\"", "the listing, with `Pool.Audit` on the pool",
			"who holds that would see it"},

		{bridgeUnknown, Refused, "Unknown bridge \"…\"", network,
			"the identity lacks `SDN.Use` on it, or a VM is to migrate there"},
		{bridgeUnlisted, Doubtful, "Unknown bridge \"…\"", network,
			"PVE starts a VM on a bridge that only the kernel has"},
		{bridgeUnfit, Doubtful, "PVE may not plug … into bridge …", network,
			"the listing is the interfaces file; the kernel may have other values"},
		{volumeMissing, Refused, "There is no …", content, "who holds what lists them sees all"},
		{nameUnknown, Refused, "Unknown … \"…\"", "the list of its kind, above", "likewise"},
		{mappingElsewhere, Refused, "Mapping … has no entry for node …", "`GET /cluster/mapping/KIND`",
			"PVE starts no VM there with it (qemu-server QemuServer/PCI.pm, USB.pm, Virtiofs.pm)"},
		{imageTooLarge, Refused, "The image is larger than the disk", content, "PVE shrinks no disk"},
		{privilegeMissing, Refused, "No permission to …", ownPrivileges, askedAgain},
		{privilegesMissing, Refused, "Privileges are missing", "the same", "another VM of the run lacks the same ones"},
	}
}

// rule is the row of a name.
func rule(name string) Rule {
	all := Rules()
	if i := slices.IndexFunc(all, func(r Rule) bool { return r.Name == name }); i >= 0 {
		return all[i]
	}
	return Rule{Name: name, Severity: Refused, Summary: name}
}

// about is the summary of a rule with its values.
func (r Rule) about(values []string) string {
	var b strings.Builder
	for i, part := range strings.Split(r.Summary, "…") {
		if i > 0 && i <= len(values) {
			b.WriteString(values[i-1])
		}
		b.WriteString(part)
	}
	return b.String()
}

// Markdown is the table as docs/design/plan.md has it.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| finding | what it is | read in | because |\n| --- | --- | --- | --- |\n")
	for _, r := range Rules() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.Summary, r.Severity, r.Read, r.Because)
	}
	return b.String()
}
