package ownership

import (
	"fmt"
	"strings"
	"time"
)

// FreshVolume is how old a volume must be before it counts as left over: a task may make it before a guest names it.
const FreshVolume = 30 * time.Minute

// Volume is what is known of a volume that carries the VMID of no guest.
type Volume struct {
	ID      string
	VMID    int
	Storage string
	// OfPVE: PVE itself gives such names. Shared: several nodes see the storage, or of which kind it is is not known.
	// Exclusive: the user says that no other cluster uses the storage.
	OfPVE, Shared, Exclusive bool
	// User is a guest that uses it under another VMID, Likeness one for which nothing but a likeness of names speaks.
	User, Likeness string
	// Unread is why the guests that could use it were not read, Unseen why some are hidden; "" for neither.
	Unread, Unseen string
	// Clones are the volumes that are based on it.
	Clones []string
	// Dated: the storage tells when it was made. Age is the time since, by the server's clock.
	Dated bool
	Age   time.Duration
}

// Foreign says why a volume that no guest of this cluster uses may still have an owner: a program that keeps volumes of
// its own, or another cluster on the same storage. It is "" if neither can be.
func (v Volume) Foreign() string {
	switch {
	case !v.OfPVE:
		return fmt.Sprintf("PVE gives no volume the name of %s, so a program may keep it for itself (a Kubernetes volume, "+
			"for one)", v.ID)
	case v.Shared && !v.Exclusive:
		return fmt.Sprintf("storage %s is shared, and %s may belong to another cluster (exclusive_storages says that no "+
			"other cluster uses a storage)", v.Storage, v.ID)
	}
	return ""
}

// JudgeVolume says whether a volume is left over: nothing that was seen has it, and everything that could was seen.
// Whole means that this is certain.
func JudgeVolume(v Volume) Verdict {
	none := fmt.Sprintf("no guest has the id %d", v.VMID)
	unknown := func(why ...string) Verdict { return Verdict{Owner: Unknown, Reason: none + strings.Join(why, "")} }
	const unused = ", and no guest uses the volume"
	switch foreign := v.Foreign(); {
	case v.User != "":
		return Verdict{Owner: ThirdParty, Reason: "it is used by " + v.User}
	case v.Likeness != "":
		return unknown("; whether a guest with another id uses the volume could not be looked at: ", v.Likeness)
	case v.Unread != "":
		return unknown("; whether a guest with another id uses the volume could not be looked at: ", v.Unread)
	case v.Unseen != "":
		return unknown("; whether a guest with another id uses the volume cannot be told: ", v.Unseen)
	case len(v.Clones) > 0:
		return unknown("; linked clones are based on the volume: ", strings.Join(v.Clones, ", "))
	case foreign != "":
		return unknown(", and no guest of this cluster uses the volume; ", foreign)
	case !v.Dated: // ZFS and RBD list no time (pve-storage, list_images of the plugins)
		return Verdict{Owner: Unowned, Reason: none + unused + "; its storage does not say when it was made, so its maker " +
			"may still be at work"}
	case v.Age < FreshVolume:
		return unknown(unused, "; it is so new that its maker may still be at work")
	}
	return Verdict{Owner: Unowned, Whole: true, Reason: none + unused}
}
