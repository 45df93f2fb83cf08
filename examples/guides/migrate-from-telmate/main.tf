terraform {
  required_providers {
    proxmox = {
      source = "terraform-proxmox/proxmox"
    }
  }
}

provider "proxmox" {} # PROXMOX_VE_ENDPOINT and PROXMOX_VE_API_TOKEN from the environment

# UsunSzkorbut/homelab-ansible-k3s-init: masters of k3s, with cloud-init on ide3.
resource "proxmox_vm" "k3s_master" {
  count = 2

  node        = "pve1"
  name        = "k3s-master-0${count.index + 1}"
  description = "Cloud Ubuntu 22.04"
  onboot      = true
  protection  = false # the template has it

  clone    = { name = "template", full = true }
  scsihw   = "virtio-scsi-single"
  cpu      = { type = "host", sockets = 1, cores = 2 } # vcpus = 0 there means all of them
  memory   = { size = 4096, balloon = 0 }
  agent    = { enabled = false }
  disks    = { scsi0 = { storage = "local-lvm", size = "20G", ssd = true } } # size = 20 there
  networks = { net0 = { model = "virtio", bridge = "vmbr0" } }
  cloud_init = {
    storage   = "local-lvm"
    slot      = "ide3"
    addresses = { net0 = { ipv4 = "10.0.0.1${count.index + 1}/24", gateway4 = "10.0.0.1" } }
  }
}

# daro1337/terraform-pve: version 2, with disks in order and everything about the CPU outside of a block.
resource "proxmox_vm" "k8s_master" {
  count = 3

  node       = "pve1"
  name       = "tf-k8s-master-0${count.index + 1}"
  clone      = { name = "template", full = true, storage = "local", format = "qcow2" } # storage_type is no argument here
  onboot     = true
  protection = false

  scsihw   = "virtio-scsi-pci"
  hotplug  = ["cpu", "disk", "memory", "network"]
  cpu      = { type = "host", sockets = 1, cores = 1, numa = true }
  memory   = { size = 1024, balloon = 0 }
  agent    = { enabled = true }
  disks    = { scsi0 = { size = "16G", iothread = true, cache = "writeback" } } # the first of type = "scsi"
  networks = { net0 = { model = "virtio", bridge = "vmbr0" } }                  # tag = 0 there is none
  cloud_init = {
    addresses = { net0 = { ipv4 = "dhcp", ipv6 = "dhcp" } }
  }
}

# Randsw/proxmox-capi-talos: a control plane of Talos with a serial console. What stands in ignore_changes there need not stand here: what is
# not written down is left alone.
resource "proxmox_vm" "controlplane" {
  count = 1

  node       = "pve1"
  name       = "control-plane-${count.index}"
  clone      = { name = "template", full = true }
  onboot     = false
  protection = false

  ostype   = "l26"
  scsihw   = "virtio-scsi-pci"
  cpu      = { type = "host", flags = ["+aes"], sockets = 1, cores = 4 } # cpu = "host,flags=+aes"
  memory   = { size = 4096 }
  vga      = { type = "serial0" }
  serial   = { serial0 = { device = "socket" } }
  disks    = { scsi0 = { storage = "local-zfs", size = "40G", cache = "writethrough", ssd = true, backup = false } }
  networks = { net0 = { model = "virtio", bridge = "vmbr0", firewall = false } }
  cloud_init = {
    addresses = { net0 = { ipv4 = "10.0.1.2${count.index + 1}/24", gateway4 = "10.0.1.1" } } # cidrhost() there
  }
  boot_order = ["scsi0"]
}
