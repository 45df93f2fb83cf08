package provision

import "github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"

// Residue is a leftover of ours on the server.
type Residue = tx.Residue
