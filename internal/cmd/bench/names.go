package main

import "time"

// The operations.
const (
	opStart   = "start-up"
	opPlan    = "plan"
	opRefresh = "refresh-only"
	opApply   = "apply, no changes"
	opCreate  = "create"

	opSlowCreate  = "create, slow server"
	opSlowClone   = "clone, slow server"
	opSlowUpdate  = "update, slow server"
	opSlowDestroy = "destroy, slow server"
	opSlowNothing = "apply of no VM, slow server"

	opOffline = "refresh-only, half on a node that is away"
)

// The slow server: PVE's daemons have three workers each, and 50 ms is what a Perl handler takes on a node that has other things
// to do.
const (
	slowTask    = 200 * time.Millisecond
	slowRequest = 50 * time.Millisecond
	slowWorkers = 3
)

// The sides of a comparison.
const (
	whoProvider = "proxmox"
	whoPeer     = "bpg"
	whoFloor    = "terraform_data"
	whoBare     = "bare client"
	whoLimit    = "limit"
)

// away is the node that is not there in opOffline.
const away = "pve2"
