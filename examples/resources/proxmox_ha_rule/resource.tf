resource "proxmox_vm" "licensed" {
  node  = "pve1"
  name  = "licensed-1"
  disks = { scsi0 = { storage = "local-zfs", size = "8G" } }
  ha    = { state = "started" }
}

# Runs on these nodes only: on pve1 while it is online.
resource "proxmox_ha_rule" "licensed" {
  rule      = "licensed-nodes"
  type      = "node-affinity"
  resources = ["vm:${proxmox_vm.licensed.vmid}"]
  nodes     = { pve1 = 2, pve2 = 1 }
  strict    = true
  comment   = "The licence covers these nodes"
}
