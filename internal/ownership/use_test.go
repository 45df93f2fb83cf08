package ownership

import (
	"cmp"
	"fmt"
	"time"
)

// backupRows are the tasks by which a backup in mode "stop" or "suspend" takes a guest down, and up again. All others of
// root, and all outside the backup, are uses of the guest.
func backupRows() (rows []row) {
	const root, began, ended = "root@pam", 5 * time.Minute, 3 * time.Minute
	for name, c := range map[string]struct {
		of       string // the VMID that the backup names
		node     string
		down, up string
		user     string
		at, upAt time.Duration
		runs     bool
		says     string
	}{
		"a backup in mode stop":             {},
		"a job of several, in mode stop":    {of: "-"},
		"a backup in mode suspend":          {down: "qmpause", up: "qmresume"},
		"a backup in mode stop, through HA": {down: "hastop", up: "hastart"},
		"a backup in mode stop, at work":    {up: "-", runs: true},
		"a start after the backup":          {upAt: ended - time.Second, says: "root@pam has begun qmstart"},
		"a shutdown before the backup":      {at: began + time.Second, up: "-", says: "root@pam has begun qmshutdown"},
		"a start without its shutdown":      {down: "-", says: "root@pam has begun qmstart"},
		"another's shutdown amid a backup":  {user: neighbor, up: "-", says: neighbor + " has begun qmshutdown"},
		"amid the backup of another VM":     {of: "401", says: "root@pam has begun qmshutdown"},
		"amid a backup on another node":     {node: "pve2", says: "root@pam has begun qmshutdown"},
		"a change by root amid a backup":    {down: "qmconfig", up: "-", says: "root@pam has begun qmconfig"},
	} {
		rows = append(rows, row{name: name, says: c.says, owner: map[bool]Owner{true: Ours}[c.says == ""], whole: c.says == "",
			happens: func(f *facts) {
				dump := f.add("vzdump", theVM, root, cmp.Or(c.node, "pve1"), began)
				dump.End, dump.Running = f.Clocks[dump.Node]-int64(ended/time.Second), c.runs
				if dump.ID = cmp.Or(c.of, fmt.Sprint(theVM)); dump.ID == "-" {
					dump.ID = ""
				}
				if down := cmp.Or(c.down, "qmshutdown"); down != "-" {
					f.add(down, theVM, cmp.Or(c.user, root), "pve1", cmp.Or(c.at, began))
				}
				if up := cmp.Or(c.up, "qmstart"); up != "-" {
					f.add(up, theVM, root, "pve1", cmp.Or(c.upAt, ended))
				}
			}})
	}
	return rows
}
