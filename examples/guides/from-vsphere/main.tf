terraform {
  required_providers {
    proxmox = {
      source = "terraform-proxmox/proxmox"
    }
  }
}

provider "proxmox" {} # PROXMOX_VE_ENDPOINT and PROXMOX_VE_API_TOKEN from the environment

# A machine on the storage of type ESXi, and an appliance among the files of a node.
data "proxmox_import_metadata" "web" {
  volume = "esxi:ha-datacenter/datastore1/web/web.vmx"
}

data "proxmox_import_metadata" "appliance" {
  node   = "pve1"
  volume = "local:import/appliance.ova"
}

# What is not written down here is as PVE proposes it, and stands in the plan.
resource "proxmox_vm" "web" {
  node = "pve1"

  name       = data.proxmox_import_metadata.web.name
  ostype     = data.proxmox_import_metadata.web.ostype
  bios       = data.proxmox_import_metadata.web.bios
  cpu        = merge(data.proxmox_import_metadata.web.cpu, { type = "x86-64-v2-AES" })
  memory     = data.proxmox_import_metadata.web.memory
  smbios     = data.proxmox_import_metadata.web.smbios
  boot_order = data.proxmox_import_metadata.web.boot_order

  scsihw   = "virtio-scsi-single" # in place of pvscsi: Linux has the driver
  disks    = { for slot, disk in data.proxmox_import_metadata.web.disks : slot => merge(disk, { storage = "local-lvm", discard = true }) }
  networks = { for slot, nic in data.proxmox_import_metadata.web.networks : slot => merge(nic, { bridge = "vmbr0", model = "virtio" }) }
}

resource "proxmox_vm" "appliance" {
  node = "pve1"

  name       = "appliance-1"
  ostype     = data.proxmox_import_metadata.appliance.ostype
  cpu        = data.proxmox_import_metadata.appliance.cpu
  memory     = data.proxmox_import_metadata.appliance.memory
  boot_order = data.proxmox_import_metadata.appliance.boot_order

  scsihw   = "virtio-scsi-single"
  disks    = { for slot, disk in data.proxmox_import_metadata.appliance.disks : slot => merge(disk, { storage = "local-zfs" }) }
  networks = { for slot, nic in data.proxmox_import_metadata.appliance.networks : slot => merge(nic, { bridge = "vmbr0" }) }
}
