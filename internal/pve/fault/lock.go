package fault

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

// Contended reports whether err says that a third party holds a lock and proves that nothing was done, so that the same
// request may be sent again. That is so where the words about the lock are the whole message: with anything around them
// they may come from the middle of the work, and inside errors{} of a 400 a part of it was done.
func Contended(err error) bool {
	var task *TaskError
	if errors.As(err, &task) {
		return task.contended()
	}
	var answer *Error
	if !errors.As(err, &answer) || answer.Status < 500 || answer.Kind != Locked || len(answer.Params) > 0 {
		return false
	}
	message := withoutPrefix(answer.Message)
	return isConfigLock(message) || isLockTimeout(message)
}

// ConfigLock is the configuration lock that err is about, "backup"; "" if it is about none.
func ConfigLock(err error) string {
	text := ""
	var task *TaskError
	var answer *Error
	switch {
	case errors.As(err, &task):
		text = task.ExitStatus
	case errors.As(err, &answer):
		text = answer.Message
	}
	if _, rest, ok := strings.Cut(text, "VM is locked ("); ok {
		name, _, _ := strings.Cut(rest, ")")
		return name
	}
	return ""
}

// lastingLock is no sign of work under way: a guest that was suspended to disk keeps it until it is resumed.
const lastingLock = "suspended"

// isConfigLock tells whether the whole message is check_lock's (guest-common AbstractConfig.pm), which comes before
// anything is done, and not about a lock that lasts.
func isConfigLock(message string) bool {
	name, ok := strings.CutPrefix(message, "VM is locked (")
	name, ok2 := strings.CutSuffix(name, ")")
	return ok && ok2 && name != lastingLock && !strings.ContainsAny(name, "() \n")
}

// withoutPrefix takes off what PVE puts before the error of a lock that it takes for the whole of a request.
func withoutPrefix(message string) string {
	for _, prefix := range []string{
		"update pools failed: ",            // access-control AccessControl.pm lock_user_config, in pve-manager API2/Pool.pm
		"create resource failed: ",         // pve-ha-manager API2/HA/Resources.pm, HA/Config.pm lock_ha_domain
		"update resources config failed: ", // pve-ha-manager HA/Config.pm
		"delete resource failed: ",         // pve-ha-manager HA/Config.pm
		"create ha rule failed: ",          // pve-ha-manager API2/HA/Rules.pm
		"update HA rules failed: ",         // pve-ha-manager API2/HA/Rules.pm
		"delete ha rule failed: ",          // pve-ha-manager API2/HA/Rules.pm
	} {
		if rest, ok := strings.CutPrefix(message, prefix); ok {
			return rest
		}
	}
	if m := createPrefix().FindString(message); m != "" {
		return strings.TrimPrefix(message, m)
	}
	return message
}

// createPrefix is what a create says before the error of create_and_lock_config, its first write (qemu-server
// API2/Qemu.pm). As the end of a task the same words come later.
func createPrefix() *regexp.Regexp { return regexp.MustCompile(`^unable to create VM \d+ - `) }

// isLockTimeout tells whether the whole message says that a lock was not got.
func isLockTimeout(message string) bool {
	return isQuotedBetween(message, "can't lock file '", "' - got timeout") || // pve-common Tools.pm lock_file
		isQuotedBetween(message, "cfs-lock '", "' error: got lock request timeout") // pve-cluster Cluster.pm cfs_lock
}

func isQuotedBetween(message, before, after string) bool {
	rest, ok := strings.CutPrefix(message, before)
	name, ok2 := strings.CutSuffix(rest, after)
	return ok && ok2 && !strings.ContainsAny(name, "'\n")
}

// contended: the tasks that take the lock of their guest, and look for its configuration lock, before they do
// anything (qemu-server API2/Qemu.pm, QemuServer.pm; seen on 8.4). A timeout of any other lock comes from the middle
// of the work.
func (t *TaskError) contended() bool {
	locksFirst := []string{"qmdestroy", "qmstart", "qmstop", "qmshutdown", "qmreboot", "qmreset", "qmpause", "qmresume",
		"qmconfig",
		"qmmove", "resize", "qmtemplate", "qmsnapshot", "qmdelsnapshot", "qmrollback"}
	switch typ := t.UPID.Type(); {
	case t.awaitsMigration():
		return true
	case slices.Contains(locksFirst, typ):
		return isConfigLock(t.ExitStatus) ||
			t.ExitStatus == "can't lock file '/var/lock/qemu-server/lock-"+t.UPID.ID()+".conf' - got timeout"
	case typ == "qmsuspend":
		// It takes the file's lock once more when the memory is saved (qemu-server QemuServer.pm vm_suspend).
		return isConfigLock(t.ExitStatus)
	case typ == "qmclone":
		// It locks source and target first; a lock of the cluster is taken when the target is there already.
		return isConfigLock(t.ExitStatus) || isQuotedBetween(t.ExitStatus, "can't lock file '/var/lock/qemu-server/lock-",
			"' - got timeout")
	case typ == "qmigrate" && t.ExitStatus == "migration aborted":
		// The reason is in the log only (guest-common AbstractMigrate.pm).
		return slices.ContainsFunc(t.Log, func(line string) bool { return migrationRefused(line, t.UPID.ID()) })
	}
	return false
}

// awaitsMigration: the tasks that take the migration lock of their guest before anything else. A replication holds it
// until it has sent all disks (qemu-server API2/Qemu.pm migrate_vm, delsnapshot, rollback; guest-common GuestHelpers.pm
// guest_migration_lock, Replication.pm run_replication).
func (t *TaskError) awaitsMigration() bool {
	switch t.UPID.Type() {
	case "qmdelsnapshot":
		return t.ExitStatus == "Failed to obtain guest migration lock - replication running?"
	case "qmrollback", "qmigrate":
		return t.ExitStatus == "can't lock file '/var/lock/pve-manager/pve-migrate-"+t.UPID.ID()+"' - got timeout"
	}
	return false
}

// LeavesHalf reports whether a task that failed has left a half-made guest behind, although it was not killed: a
// clone writes the target's configuration, and then copies the firewall's file under a lock of the cluster before
// anything would clean up (qemu-server API2/Qemu.pm clone_vm; pve-firewall Firewall.pm clone_vmfw_conf). A restore
// takes its lock away, and nothing else (API2/Qemu.pm create_vm, "state is NOT cleaned up"). Without quorum no
// configuration is removed, which a create says in its log ("failed to remove config file"), and a clone nowhere. A
// destroy takes locks of the cluster when the disks are gone, and only (lock: destroyed) is left of the configuration
// (API2/Qemu.pm destroy_vm; pve-access-control AccessControl.pm remove_vm_access; pve-ha-manager HA/Config.pm).
func (t *TaskError) LeavesHalf() bool {
	switch t.UPID.Type() {
	case "qmrestore":
		return t.ExitStatus != "" && t.ExitStatus != "OK" && !strings.HasPrefix(t.ExitStatus, "WARNINGS: ")
	case "qmclone":
		return strings.HasPrefix(t.ExitStatus, "cfs-lock 'firewall-vm-") || isReadOnly(t.ExitStatus)
	case "qmdestroy":
		return strings.Contains(t.ExitStatus, "cfs-lock '") || isReadOnly(t.ExitStatus) ||
			strings.HasPrefix(t.ExitStatus, "failed to remove config file: ") // guest-common AbstractConfig.pm
	}
	return t.UPID.Type() == "qmcreate" && isReadOnly(t.ExitStatus)
}

// isReadOnly tells whether a task failed since the cluster's file system, below /etc/pve, could not be written, as
// without quorum (pve-cluster Cluster.pm cfs_lock, pmxcfs; pve-common Tools.pm file_set_contents; qemu-server
// API2/Qemu.pm clone_vm, "rename failed").
func isReadOnly(message string) bool {
	refused := strings.HasSuffix(message, "Permission denied")
	return strings.Contains(message, "no quorum") || refused && strings.Contains(message, "/etc/pve/") ||
		refused && strings.Contains(message, "Failed to move config to node ")
}

// LeavesVolumes reports whether a task that failed has removed its guest's configuration, and none of its volumes: a
// create frees them only where an error comes before the guest is to enter its pool, for which the lock of user.cfg may
// not be got (qemu-server API2/Qemu.pm create_vm; pve-access-control AccessControl.pm add_vm_to_pool). A clone says the
// same behind "clone failed: ", and frees them (CleansUp).
func (t *TaskError) LeavesVolumes() bool {
	return t.UPID.Type() == "qmcreate" && strings.HasPrefix(t.ExitStatus, "can't add VM "+t.UPID.ID()+" to pool ") &&
		!isReadOnly(t.ExitStatus)
}

// CleansUp reports whether a task has taken back what it had made where it failed, or had made nothing. A clone that
// failed says so by what stands before its error, or by an error that comes before its first write. Before it enters
// its pool one to another node has moved its configuration there, and does not remove it (qemu-server API2/Qemu.pm
// clone_vm).
func (t *TaskError) CleansUp() bool {
	switch {
	case t.Killed() || t.IsUntold() || t.LeavesHalf() || t.LeavesVolumes():
		return false
	case t.UPID.Type() != "qmclone" || t.ExitStatus == "OK" || strings.HasPrefix(t.ExitStatus, "WARNINGS: "):
		return true
	case strings.HasPrefix(t.ExitStatus, "clone failed: can't add VM "):
		return false
	}
	return strings.HasPrefix(t.ExitStatus, "clone failed: ") || t.contended() ||
		slices.Contains([]Kind{Exists, Denied, Invalid}, kindOfMessage(t.ExitStatus))
}

// migrationRefused tells whether a line of a migration's log says that it did not get the lock of the guest, or found
// it locked (qemu-server QemuMigrate.pm lock_vm, prepare).
func migrationRefused(line, id string) bool {
	_, reason, ok := strings.Cut(line, "migration aborted (duration ")
	_, reason, ok2 := strings.Cut(reason, "): ")
	return ok && ok2 && (isConfigLock(reason) ||
		reason == "can't lock file '/var/lock/qemu-server/lock-"+id+".conf' - got timeout")
}
