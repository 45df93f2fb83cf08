package fault

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// messageRule maps one of PVE's texts to a Kind. In the pattern "*" stands for any text and "#" for a number; it may
// match anywhere in the message, since PVE puts prefixes ("unable to create VM 100 - ", "clone failed: ") before
// causes.
type messageRule struct {
	pattern string
	kind    Kind
	inParam bool // also believed inside errors{} of a 400, where other texts prove nothing
}

// messageRules is the one table from PVE's words to kinds; the first match wins. It is a function so that no code can
// change it. Short names of sources: QA = qemu-server API2/Qemu.pm, QS = qemu-server QemuServer.pm, ABC = guest-common
// AbstractConfig.pm, ST = pve-storage Storage.pm, PL = pve-storage Storage/Plugin.pm, CL = pve-cluster Cluster.pm,
// TK = pve-manager API2/Tasks.pm, RE = pve-common RESTEnvironment.pm.
func messageRules() []messageRule {
	return slices.Concat(accessRules(), takenRules(), useRules(), stateRules(), absenceRules(), limitRules(), inputRules())
}

// accessRules: the caller may not do it.
func accessRules() []messageRule {
	return []messageRule{
		// Before the rest: "403 Permission check failed (pool 'x' does not exist)" is no proof of absence.
		{"Only root may use this option", Denied, true},                 // QA, skiplock; access-control RPCEnvironment.pm
		{"only root can set '*' config", Denied, true},                  // QA check_vm_modify_config_perm
		{"Only root can pass arbitrary filesystem paths", Denied, true}, // ST check_volume_access
		// pve-common Exception.pm; "update pools failed: 403 …"
		{"Permission check failed", Denied, false},
		{"protection mode enabled", Denied, false}, // ABC check_protection
		{"authentication failure", Denied, false},  // access-control AccessControl.pm

		// A third party changed it. ABC/pve-common Tools.pm assert_if_modified; "missmatch" is v7's spelling.
		{"checksum mismatch (file change by other user", DigestMismatch, false},
		{"checksum missmatch (file change by other user", DigestMismatch, false},
		{"detected modified configuration - file changed by other user", DigestMismatch, false}, // QA move_disk
	}
}

// takenRules: another object is in the way.
func takenRules() []messageRule {
	return []messageRule{
		// A volume in the way, before Exists: the texts overlap.
		{"cannot create snapshot '*': dataset already exists", Exists, false}, // ZFSPoolPlugin.pm volume_snapshot
		{"dataset already exists", Leftover, false},                           // ZFSPoolPlugin.pm zfs_create_zvol
		{"disk image '*' already exists", Leftover, false},                    // PL alloc_image
		{"Logical Volume \"*\" already exists", Leftover, false},              // lvcreate, LVMPlugin.pm and LvmThinPlugin.pm
		{"rbd create '*' error*File exists", Leftover, false},                 // RBDPlugin.pm alloc_image
		{"rbd create '*' error*already exists", Leftover, false},              // RBDPlugin.pm alloc_image

		// Ids and names that are taken.
		{"VM # already exists", Exists, true},         // CL check_vmid_unused; errors{vmid} of nextid
		{"CT # already exists", Exists, true},         // CL check_vmid_unused
		{"config file already exists", Exists, false}, // QA clone_vm
		// pve-common File.pm: pmxcfs refuses a second owner of an id.
		{"close (rename) atomic file '*' failed: File exists", Exists, false},
		{"refusing to override existing file", Exists, false}, // pve-storage API2/Storage/Status.pm download_url
		{"snapshot name '*' already used", Exists, false},     // ABC snapshot_prepare
		{"is already a pool member", Exists, false},           // pve-manager API2/Pool.pm
		{"pool '*' already exists", Exists, false},            // pve-manager API2/Pool.pm
		{"already defined", Exists, false},                    // storage and HA configuration
	}
}

// useRules: the object is locked or in use.
func useRules() []messageRule {
	return []messageRule{
		// Locks.
		{"VM is locked (*)", Locked, false},                  // ABC check_lock
		{"CT is locked (*)", Locked, false},                  // ABC check_lock
		{"can't lock file '*' - got timeout", Locked, false}, // pve-common Tools.pm lock_file
		{"got lock request timeout", Locked, false},          // CL cfs_lock
		{"can't acquire lock", Locked, false},                // pve-common Tools.pm lock_file

		// In use.
		{"VM # is running - destroy failed", Busy, false},                 // QA destroy_vm
		{"VM # already running", Busy, false},                             // QS vm_start
		{"if VM is running", Busy, false},                                 // QA template
		{"dataset is busy", Busy, false},                                  // zfs destroy
		{"is still in use", Busy, false},                                  // ST vdisk_free, linked clones; ABC snapshots
		{"contains a filesystem in use", Busy, false},                     // lvremove
		{"Logical volume * in use", Busy, false},                          // lvremove
		{"image has watchers", Busy, false},                               // rbd rm
		{"used in HA resources and purge parameter not set", Busy, false}, // QA destroy_vm
		{"There is a replication job", Busy, false},                       // pve-guest-common ReplicationConfig.pm
		{"pool '*' is not empty", Busy, false},                            // pve-manager API2/Pool.pm
		{"-locked command timed out - aborting", Busy, false},             // CL cfs_lock, 60 s
		{"VM quit/powerdown failed", Busy, false},                         // QS vm_stop
		{"VM is paused - cannot shutdown", Busy, false},                   // QA vm_shutdown

		// A worker that could not be started, or whose end was not seen: it may have done something.
		{"got no worker upid", Ambiguous, false},  // RE fork_worker
		{"start worker failed", Ambiguous, false}, // RE fork_worker
	}
}

// stateRules: the object's state does not allow it now.
func stateRules() []messageRule {
	return []messageRule{
		// Not in a state to do it. Before NotFound: a missing node or volume group says nothing about the volume.
		{"no quorum", Unhealthy, false},                       // CL check_cfs_quorum, cfs_lock
		{"hostname lookup '*' failed", Unhealthy, false},      // CL remote_node_ip, unknown node in the path
		{"no such cluster node", Unhealthy, false},            // CL check_node_exists
		{"storage '*' is disabled", Unhealthy, false},         // ST storage_check_enabled
		{"storage '*' is not online", Unhealthy, false},       // ST activate_storage
		{"is not available on node", Unhealthy, false},        // ST storage_check_node
		{"unable to activate storage", Unhealthy, false},      // ST activate_storage
		{"could not activate storage", Unhealthy, false},      // ZFSPoolPlugin.pm activate_storage
		{"no such pool", Unhealthy, false},                    // zfs and zpool: pool not imported
		{"no such volume group", Unhealthy, false},            // LVMPlugin.pm
		{"no zvol device link", Unhealthy, false},             // ZFSPoolPlugin.pm: the volume is missing, or udev is late
		{"QEMU guest agent is not running", Unhealthy, false}, // QA agent, after a ping of 3 s
		{"VM # is not running", Unhealthy, false},             // qemu-server Agent.pm
		{"VM # not running", Unhealthy, false},                // QS, reboot, reset, suspend
	}
}

// absenceRules: the object is not there.
func absenceRules() []messageRule {
	return []messageRule{
		// Gone, or never there.
		{"Configuration file '*' does not exist", NotFound, false},              // ABC load_config
		{"unable to find configuration file for VM # on node", NotFound, false}, // QC, clone and stop
		{"volume '*' does not exist", NotFound, false},                          // QS, PL
		{"dataset does not exist", NotFound, false},                             // zfs
		{"disk image '*' does not exist", NotFound, false},                      // PL free_image
		{"Failed to find logical volume", NotFound, false},                      // lvs, lvremove
		{"failed to stat '*'", NotFound, false},                                 // PL file_size_info, import source
		{"snapshot '*' does not exist", NotFound, false},                        // ABC
		{"storage '*' does not exist", NotFound, false},                         // ST storage_config
		{"No such storage", NotFound, true},                                     // pve-storage API2/Storage/Status.pm
		{"pool '*' does not exist", NotFound, false},                            // pve-manager API2/Pool.pm
		{"no such resource '*'", NotFound, false},                               // pve-ha-manager API2/HA/Resources.pm
		{"cannot delete service '*', not HA managed", NotFound, false},          // pve-ha-manager HA/Config.pm
		{"no such ha rule '*'", NotFound, false},                                // pve-ha-manager API2/HA/Rules.pm
		{"HA rule '*' does not exist", NotFound, false},                         // pve-ha-manager API2/HA/Rules.pm
		{"no such task", NotFound, true},                                        // TK
		{"no such user", NotFound, false},                                       // access-control
		{"no such token", NotFound, false},                                      // access-control
	}
}

// limitRules: what this server or storage cannot do.
func limitRules() []messageRule {
	return []messageRule{
		// Full.
		{"not enough free space", Capacity, false},             // LVMPlugin.pm, "not enough free space (X < Y)"
		{"insufficient free space", Capacity, false},           // lvcreate
		{"insufficient free extents", Capacity, false},         // lvcreate
		{"No space left on device", Capacity, false},           // errno
		{"out of space", Capacity, false},                      // zfs
		{"quota exceeded", Capacity, false},                    // errno, zfs
		{"Cannot allocate memory", Capacity, false},            // errno, qemu
		{"cannot set up guest memory", Capacity, false},        // qemu
		{"vcpus allowed per VM on this node", Capacity, false}, // QS config_to_command
		{"unable to get any free VMID", Capacity, false},       // pve-manager API2/Cluster.pm nextid

		// Not with this server or this storage.
		{"No QEMU guest agent configured", Unsupported, false},        // QA agent
		{"Linked clone feature is not supported", Unsupported, false}, // QA clone_vm
		{"feature is not supported", Unsupported, false},              // QA, ABC snapshots
		{"snapshot feature is not available", Unsupported, false},     // ABC __snapshot_prepare
	}
}

// inputRules: the request is wrong, although PVE says so with a 500.
func inputRules() []messageRule {
	return []messageRule{
		// Wrong, although PVE says so with a 500.
		{"no options specified", Invalid, false},                        // QA update_vm_api
		{"SSH public key validation error", Invalid, false},             // QA
		{"shrinking disks is not supported", Invalid, false},            // QA resize_vm
		{"disk '*' does not exist", Invalid, false},                     // QA resize_vm, move_disk: the slot, not the volume
		{"invalid bootorder", Invalid, false},                           // QA
		{"unsupported format '*'", Invalid, false},                      // storage plugins
		{"unable to parse", Invalid, false},                             // storage plugins parse_volname
		{"illegal name '*'", Invalid, false},                            // PL alloc_image
		{"parameter '*' not allowed for linked clones", Invalid, false}, // QA clone_vm
		{"does not support", Invalid, false},                            // content types and formats
		{"because VM contains snapshots", Invalid, false},               // QA template
		// QA: template of a template, start of a template, move to the same place
		{"you can't", Invalid, false},
	}
}

// hotplugProblem is what PVE says behind the name of an option that a running guest did not take (qemu-server
// QemuServer.pm vmconfig_hotplug_pending).
const hotplugProblem = ": hotplug problem - "

// RefusedAtHotplug tells a refusal that PVE explains option by option: as an answer, or as the end of a task.
func RefusedAtHotplug(err error) bool {
	var refused *Error
	if errors.As(err, &refused) {
		return refused.Kind == Invalid && len(refused.Params) > 0
	}
	var task *TaskError
	return errors.As(err, &task) && strings.Contains(task.ExitStatus, hotplugProblem)
}

// Refuses reports whether such a refusal is about an option.
func Refuses(err error, option string) bool {
	var refused *Error
	if errors.As(err, &refused) {
		_, ok := refused.Params[option]
		return ok
	}
	var task *TaskError
	return errors.As(err, &task) && strings.Contains(" "+task.ExitStatus, " "+option+hotplugProblem)
}

// DiedMidway tells an answer that ended a change of options in its middle: those before are noted already, since PVE
// writes the configuration after each (qemu-server API2/Qemu.pm update_vm_api).
func DiedMidway(err error) bool {
	var task *TaskError
	if errors.As(err, &task) {
		return !strings.Contains(task.ExitStatus, hotplugProblem) && !refusedFirst(task.ExitStatus)
	}
	var refused *Error
	return errors.As(err, &refused) && refused.Status >= 500 && refused.Status < 590 &&
		!slices.Contains([]Kind{Locked, DigestMismatch, NotFound, Ambiguous}, refused.Kind)
}

// refusedFirst tells the end of a change that has written nothing: since qemu-server 9.2.0 the worker itself takes the
// lock, and compares digest and configuration lock (API2/Qemu.pm update_vm_api, 797ab238). The lock of a storage and a
// missing volume come from the middle.
func refusedFirst(exitStatus string) bool {
	return kindOfMessage(exitStatus) == DigestMismatch || strings.HasPrefix(exitStatus, "VM is locked (") ||
		strings.HasPrefix(exitStatus, "Configuration file '") ||
		isQuotedBetween(exitStatus, "can't lock file '/var/lock/qemu-server/lock-", "' - got timeout")
}

// IsProtected tells a refusal since the guest is protected; it is no matter of privileges (pve-guest-common
// AbstractConfig.pm check_protection).
func IsProtected(err error) bool {
	return err != nil && strings.Contains(err.Error(), "protection mode enabled")
}

// RefusesIOUring tells that a running disk was not moved since it has io_uring (qemu-server QemuServer.pm
// clone_disk_check_io_uring).
func RefusesIOUring(err error) bool {
	return err != nil && strings.Contains(err.Error(), "target storage is known to cause issues with aio=io_uring")
}

// KeptBySnapshot tells that a disk was not moved since a snapshot needs its volume (qemu-server API2/Qemu.pm
// move_vm_disk).
func KeptBySnapshot(err error) bool {
	return err != nil && strings.Contains(err.Error(), "you can't move a disk with snapshots and delete the source")
}

// IsNotNewest tells that a disk was not rolled back since it has a younger snapshot (pve-storage ZFSPoolPlugin.pm,
// LVMPlugin.pm and Plugin.pm volume_rollback_is_possible).
func IsNotNewest(err error) bool {
	return err != nil && strings.Contains(err.Error(), "is not most recent snapshot on ")
}

// HasForeignSnapshot tells of IsNotNewest that the disk is on ZFS: that plugin alone names it with its storage.
func HasForeignSnapshot(err error) bool {
	if !IsNotNewest(err) {
		return false
	}
	_, disk, _ := strings.Cut(err.Error(), "is not most recent snapshot on '")
	disk, _, _ = strings.Cut(disk, "'")
	return strings.Contains(disk, ":")
}

// IsGuestGone tells that the node has no configuration of a VM (pve-guest-common AbstractConfig.pm load_config,
// qemu-server QemuConfig.pm assert_config_exists_on_node). A missing pool, storage or snapshot is NotFound, too.
func IsGuestGone(err error, vmid int) bool {
	if err == nil || vmid == 0 {
		return false
	}
	text := err.Error()
	return strings.Contains(text, fmt.Sprintf("/qemu-server/%d.conf' does not exist", vmid)) ||
		strings.Contains(text, fmt.Sprintf("unable to find configuration file for VM %d on node", vmid))
}

// kindOfMessage is the Kind of a text of PVE: of a 500 or of a task's exit status.
func kindOfMessage(message string) Kind {
	for _, rule := range messageRules() {
		if matches(rule.pattern, message) {
			return rule.kind
		}
	}
	return Unknown
}

// kindOfParams is the Kind of a 400 with errors{}. Lock texts in there prove nothing: a hotplug may have failed
// half-way.
func kindOfParams(params map[string]string) Kind {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		for _, rule := range messageRules() {
			if rule.inParam && matches(rule.pattern, params[name]) {
				return rule.kind
			}
		}
	}
	return Invalid
}

// KindOfAnswer is the Kind of an answer that is not a success. 59x are AnyEvent::HTTP's codes, which pveproxy passes on
// when it could not talk to the node: 595 connect, 596 up to the header (also its 30 s limit), 597 to 599 later.
func KindOfAnswer(isWrite bool, status int, message string, params map[string]string) Kind {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return Denied
	case http.StatusBadRequest:
		return kindOfParams(params)
	case http.StatusNotImplemented:
		if strings.Contains(message, "data too large") { // AnyEvent.pm, body limit
			return Invalid
		}
		return Unsupported
	case 595, http.StatusServiceUnavailable, http.StatusTooManyRequests:
		return Unavailable
	case 596:
		return Ambiguous
	case 597, 598, 599, http.StatusBadGateway, http.StatusGatewayTimeout:
		if isWrite {
			return Ambiguous
		}
		return Unavailable
	}
	if status < http.StatusInternalServerError {
		return Unknown
	}
	return kindOfMessage(message)
}
