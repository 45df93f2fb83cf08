// Package auth judges what an identity may do on a path of the access control list (access-control RPCEnvironment.pm,
// AccessControl.pm).
package auth

// Root is root@pam with a ticket.
func Root() Identity { return Identity{ID: RootUser, User: RootUser} }

// RootUser is the user whose rights are unconditional.
const RootUser = "root@pam"

// Identity is who asks.
type Identity struct {
	ID      string // "root@pam" or "user@realm!token", as in UPIDs
	User    string // "user@realm"
	IsToken bool

	Unrestricted bool // a third party's act: nothing is forbidden to him
}

// IsRoot reports whether the request has root's unconditional rights: the user root@pam with a ticket.
// A token of root@pam has not (access-control RPCEnvironment.pm compares the whole id).
func (a Identity) IsRoot() bool { return a.ID == RootUser || a.Unrestricted }
