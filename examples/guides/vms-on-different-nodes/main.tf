terraform {
  required_providers {
    proxmox = {
      source = "terraform-proxmox/proxmox"
    }
  }
}

provider "proxmox" {} # PROXMOX_VE_ENDPOINT and PROXMOX_VE_API_TOKEN from the environment

locals {
  control_planes = { cp-1 = "pve1", cp-2 = "pve2", cp-3 = "pve3" }
}

resource "proxmox_vm" "control_plane" {
  for_each = local.control_planes

  name   = each.key
  nodes  = distinct(concat([each.value], values(local.control_planes))) # made on the first; HA may move it
  cpu    = { cores = 2 }
  memory = { size = 2048 }
  disks  = { scsi0 = { storage = "shared-nfs", size = "20G" } } # every node reaches it, so that HA can start the VM on another
  ha     = { state = "started", comment = "control plane" }
}

# Never two of them on one node. HA takes at most as many VMs into such a rule as there are nodes.
resource "proxmox_ha_rule" "control_planes" {
  rule      = "control-planes-apart"
  type      = "resource-affinity"
  affinity  = "negative"
  resources = [for vm in proxmox_vm.control_plane : "vm:${vm.vmid}"]
  comment   = "One node may fail, and two control planes stay"
}
