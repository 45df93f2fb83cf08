terraform {
  required_providers {
    proxmox = { source = "bpg/proxmox" }
  }
}

provider "proxmox" {
  endpoint  = var.endpoint
  api_token = var.api_token
  insecure  = true # it has no argument for a CA's certificate
  ssh {
    username    = "root"
    agent       = false
    private_key = var.ssh_private_key # it wants one, and does not use it here
  }
}

resource "proxmox_virtual_environment_vm" "plain" {
  count         = var.plain
  node_name     = "pve1"
  name          = "plain-${count.index}"
  tags          = var.generation == 0 ? ["bench"] : ["again-${var.generation}", "bench"]
  on_boot       = false
  scsi_hardware = "virtio-scsi-single"
  operating_system {
    type = "l26"
  }
  cpu {
    type  = "x86-64-v2-AES"
    cores = 2
  }
  memory {
    dedicated = 2048
  }
  disk {
    interface    = "scsi0"
    datastore_id = "local-lvm"
    size         = 8
  }
  network_device {
    model  = "virtio"
    bridge = "vmbr0"
  }
}

resource "proxmox_virtual_environment_vm" "clone" {
  count     = var.clones
  node_name = "pve1"
  name      = "clone-${count.index}"
  tags      = ["bench"]
  on_boot   = false
  clone {
    vm_id = 9000
    full  = true
  }
  cpu {
    type  = "x86-64-v2-AES"
    cores = 2
  }
  memory {
    dedicated = 2048
  }
  disk {
    interface    = "scsi0"
    datastore_id = "local-zfs"
    size         = 4
  }
  network_device {
    model  = "virtio"
    bridge = "vmbr0"
  }
  initialization {
    datastore_id = "local-zfs"
    user_account {
      username = "ops"
      keys     = [var.ssh_key]
    }
    ip_config {
      ipv4 {
        address = "dhcp"
      }
    }
    dns {
      servers = ["192.0.2.53"]
    }
  }
}
